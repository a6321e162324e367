//! What a node's certificate says of what comes beside it.
//!
//! A renewed certificate travels through a gateway, together with whom the node is to trust and where gateways can be
//! reached. The authority's signature is over the certificate alone, so the certificate holds the digest of the rest:
//! whoever carries it can add nothing, leave nothing out, and put nothing from yesterday in its place. Takes the rest,
//! gives its digest and the extension that holds it. Trusts nobody.

use super::{Fields, HolderError};
use crate::digest::Sha256;

/// The extension's name: an arc that belongs to whoever draws it (2.25), so long that nobody else has.
pub const OBJECT: &[u64] = &[2, 25, 5381739406258942127];

/// How the digested text begins, so that it is taken for nothing else.
const TITLE: &[u8] = b"bettercompute.certificate.company.1";

/// The digest of authorities, in DER, and of gateways' addresses, each in its order.
#[must_use]
pub fn digest<'a>(
    authorities: impl IntoIterator<Item = &'a [u8]>,
    gateways: impl IntoIterator<Item = &'a str>,
) -> Sha256 {
    let mut hasher = Sha256::hasher();
    hasher.update(TITLE);
    let authorities = authorities.into_iter().map(|der| (1, der));
    let gateways = gateways.into_iter().map(|url| (2, url.as_bytes()));
    for (kind, item) in authorities.chain(gateways) {
        // Kind and length come first: two lists have one text only if they are one list.
        hasher.update(&[kind]);
        hasher.update(&(item.len() as u64).to_be_bytes());
        hasher.update(item);
    }
    hasher.finish()
}

/// The extension's value.
#[must_use]
pub fn value(digest: &Sha256) -> Vec<u8> {
    // An octet string of 32 bytes, as DER has it.
    [&[0x04, 0x20], &digest.as_bytes()[..]].concat()
}

/// The digest in a certificate in DER. One of an older control has none, and vouches for nobody.
pub fn of(der: &[u8]) -> Result<Option<Sha256>, HolderError> {
    let fields = Fields::of(der).map_err(HolderError::Unreadable)?;
    let digest = fields.company.map(<[u8; 32]>::try_from);
    Ok(digest.and_then(Result::ok).map(Sha256::from))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, KeyPair};

    use super::*;

    type Rest = (Vec<&'static [u8]>, Vec<&'static str>);

    fn certificate(values: &[Vec<u8>]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.custom_extensions = values
            .iter()
            .map(|value| CustomExtension::from_oid_content(OBJECT, value.clone()))
            .collect();
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        made.der().to_vec()
    }

    #[test]
    fn a_certificate_vouches_for_one_company() {
        let rests: [Rest; 9] = [
            (vec![], vec![]),
            (vec![b"one"], vec![]),
            (vec![], vec!["one"]),
            (vec![b"one"], vec!["two"]),
            (vec![b"one", b"two"], vec![]),
            (vec![b"two", b"one"], vec![]),
            (vec![b"onetwo"], vec![]),
            (vec![b"one"], vec!["two", "three"]),
            (vec![b"one"], vec!["two", "three", ""]),
        ];
        for (at, (authorities, gateways)) in rests.iter().enumerate() {
            let digest = digest(authorities.iter().copied(), gateways.iter().copied());
            let der = certificate(&[value(&digest)]);
            assert_eq!(of(&der), Ok(Some(digest)));
            for (other, (authorities, gateways)) in rests.iter().enumerate() {
                let another = super::digest(authorities.iter().copied(), gateways.iter().copied());
                assert_eq!(of(&der) == Ok(Some(another)), at == other, "{at} {other}");
            }
        }
    }

    #[test]
    fn a_certificate_without_a_word_of_it_vouches_for_nothing() {
        assert_eq!(of(&certificate(&[])), Ok(None));
        let good = value(&digest([], []));
        for wrong in [
            vec![vec![]],
            vec![vec![0x04, 0x00]],
            vec![good[2..].to_vec()],
            vec![[&good[..], b"x"].concat()],
            vec![good.clone(), good.clone()],
        ] {
            let found = of(&certificate(&wrong));
            assert!(!matches!(found, Ok(Some(_))), "{wrong:?}");
        }
    }
}
