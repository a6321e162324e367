//! The fields of a certificate that anybody here asks for.
//!
//! Takes DER that TLS has verified, gives places in it. A reader for a dozen elements, and strict: whatever is not
//! encoded in the one way that DER knows is not read. It is in every agent, where one for all of X.509 would be a
//! fortieth of the whole.

use time::{Date, Time};

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const ISSUER_ID: u8 = 0x81;
const SUBJECT_ID: u8 = 0x82;
const EXTENSIONS: u8 = 0xa3;
const URI: u8 = 0x86;

/// 2.5.29.17, the subject's other names.
const OTHER_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];

/// [`super::company::OBJECT`], as DER has it.
const COMPANY: [u8; 10] = [0x69, 0xca, 0xd7, 0xf1, 0xef, 0x9e, 0xfe, 0xa4, 0xe1, 0x2f];

/// What was read. Places are in the certificate that it was read from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    /// The first and the last second, since 1970.
    pub(super) starts: i64,
    pub(super) ends: i64,
    /// The public key with its algorithm, as SPKI DER.
    pub(super) spki: &'a [u8],
    /// The addresses among the subject's other names.
    pub(super) uris: Vec<&'a str>,
    /// The digest of what may come beside it.
    pub(super) company: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Reads a certificate, and says what was expected where that was not found.
    pub(super) fn of(der: &'a [u8]) -> Result<Self, String> {
        let mut file = Reader(der);
        let mut certificate = file.inside(SEQUENCE)?;
        file.end()?;
        let mut body = certificate.inside(SEQUENCE)?;
        certificate.element(SEQUENCE)?;
        certificate.element(BITS)?;
        certificate.end()?;
        body.optional(VERSION)?;
        body.element(INTEGER)?;
        body.element(SEQUENCE)?;
        body.element(SEQUENCE)?;
        let mut validity = body.inside(SEQUENCE)?;
        let (starts, ends) = (validity.time()?, validity.time()?);
        validity.end()?;
        body.element(SEQUENCE)?;
        let spki = body.element(SEQUENCE)?.whole;
        body.optional(ISSUER_ID)?;
        body.optional(SUBJECT_ID)?;
        let extensions = body.optional(EXTENSIONS)?;
        body.end()?;
        let known = match extensions {
            Some(found) => Known::among(Reader(found.content))?,
            None => Known::default(),
        };
        Ok(Self {
            starts,
            ends,
            spki,
            uris: known.other_names.map_or(Ok(Vec::new()), uris)?,
            company: known.company.map(octets).transpose()?,
        })
    }
}

/// The extensions that anybody here asks for.
#[derive(Default)]
struct Known<'a> {
    other_names: Option<&'a [u8]>,
    company: Option<&'a [u8]>,
}

impl<'a> Known<'a> {
    fn among(mut extensions: Reader<'a>) -> Result<Self, String> {
        let mut list = extensions.inside(SEQUENCE)?;
        extensions.end()?;
        let (mut objects, mut known) = (Vec::new(), Self::default());
        while !list.is_empty() {
            let mut extension = list.inside(SEQUENCE)?;
            let object = extension.element(OBJECT)?.content;
            extension.optional(BOOLEAN)?;
            let value = extension.element(OCTETS)?.content;
            extension.end()?;
            if objects.contains(&object) {
                return Err("expected an extension once, found it twice".to_owned());
            }
            objects.push(object);
            if object == OTHER_NAMES {
                known.other_names = Some(value);
            } else if object == COMPANY {
                known.company = Some(value);
            }
        }
        Ok(known)
    }
}

fn octets(value: &[u8]) -> Result<&[u8], String> {
    let mut value = Reader(value);
    let octets = value.element(OCTETS)?.content;
    value.end()?;
    Ok(octets)
}

fn uris(value: &[u8]) -> Result<Vec<&str>, String> {
    let mut value = Reader(value);
    let mut names = value.inside(SEQUENCE)?;
    value.end()?;
    let mut uris = Vec::new();
    while !names.is_empty() {
        let name = names.any()?;
        if name.tag == URI {
            let text = str::from_utf8(name.content)
                .ok()
                .filter(|text| text.is_ascii());
            uris.push(text.ok_or("expected an address in ASCII, found other bytes")?);
        }
    }
    Ok(uris)
}

/// One element.
struct Element<'a> {
    tag: u8,
    whole: &'a [u8],
    content: &'a [u8],
}

/// What is left of a row of elements.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn end(&self) -> Result<(), String> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(format!("expected the end, found {more} bytes more")),
        }
    }

    /// The next element, whatever it is.
    fn any(&mut self) -> Result<Element<'a>, String> {
        let element = element(self.0).ok_or("expected an element of DER, found other bytes")?;
        self.0 = self.0.get(element.whole.len()..).unwrap_or_default();
        Ok(element)
    }

    /// The next element, which has to be of that kind.
    fn element(&mut self, tag: u8) -> Result<Element<'a>, String> {
        let element = self.any()?;
        if element.tag != tag {
            let found = element.tag;
            return Err(format!(
                "expected an element {tag:#04x}, found {found:#04x}"
            ));
        }
        Ok(element)
    }

    /// What the next element, of that kind, consists of.
    fn inside(&mut self, tag: u8) -> Result<Reader<'a>, String> {
        Ok(Reader(self.element(tag)?.content))
    }

    /// The next element, if it is of that kind.
    fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, String> {
        match self.0.first() {
            Some(first) if *first == tag => self.any().map(Some),
            Some(_) | None => Ok(None),
        }
    }

    /// A time, in seconds since 1970.
    fn time(&mut self) -> Result<i64, String> {
        let element = self.any()?;
        let text = str::from_utf8(element.content).unwrap_or_default();
        let read = match element.tag {
            UTC_TIME => seconds(text, 2),
            LONG_TIME => seconds(text, 4),
            _ => None,
        };
        read.ok_or_else(|| "expected a time in UTC, found other bytes".to_owned())
    }
}

fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    // Tags of several bytes are for structures that no certificate has.
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            let length = digits
                .iter()
                .fold(0, |length, digit| length << 8 | usize::from(*digit));
            // The shortest form is the only one.
            let least = [0x80, 0x100, 0x1_0000].get(digits.len() - 1).copied()?;
            (length >= least).then_some((length, rest))?
        }
        _ => return None,
    };
    let content = rest.get(..length)?;
    let whole = bytes.get(..bytes.len() - rest.len() + length)?;
    Some(Element {
        tag,
        whole,
        content,
    })
}

/// `YYMMDDHHMMSSZ`, or the same with four digits of the year.
fn seconds(text: &str, year_digits: usize) -> Option<i64> {
    let digits = text.strip_suffix('Z')?;
    if digits.len() != year_digits + 10 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = digits.split_at_checked(year_digits)?;
    let year: i32 = year.parse().ok()?;
    let year = match (year_digits, year) {
        (2, 0..50) => year + 2000,
        (2, _) => year + 1900,
        _ => year,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<u8>().ok();
    let date = Date::from_calendar_date(year, part(0)?.try_into().ok()?, part(2)?).ok()?;
    let time = Time::from_hms(part(4)?, part(6)?, part(8)?).ok()?;
    Some(date.with_time(time).assume_utc().unix_timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, IsCa, KeyPair, KeyUsagePurpose, SanType, date_time_ymd};
    use x509_parser::extensions::GeneralName;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    use super::{Fields, seconds};

    fn made(uris: &[String], years: (i32, i32)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()]).unwrap();
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.not_before = date_time_ymd(years.0, 2, 3);
        params.not_after = date_time_ymd(years.1, 11, 30);
        let names = uris
            .iter()
            .map(|uri| SanType::URI(uri.as_str().try_into().unwrap()));
        params.subject_alt_names.extend(names);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    type Found = (i64, i64, Vec<u8>, Vec<String>);

    fn found(der: &[u8]) -> Option<Found> {
        let fields = Fields::of(der).ok()?;
        let uris = fields.uris.iter().map(ToString::to_string).collect();
        Some((fields.starts, fields.ends, fields.spki.to_vec(), uris))
    }

    /// What a reader for all of X.509 finds, if it finds anything.
    fn oracle(der: &[u8]) -> Option<Found> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate.subject_alternative_name().ok()?;
        let mut uris = Vec::new();
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            if let GeneralName::URI(uri) = name {
                uris.push((*uri).to_owned());
            }
        }
        let validity = certificate.validity();
        let (starts, ends) = (validity.not_before, validity.not_after);
        let spki = certificate.public_key().raw.to_vec();
        Some((starts.timestamp(), ends.timestamp(), spki, uris))
    }

    fn agrees(der: &[u8]) {
        assert!(found(der).is_some());
        assert_eq!(found(der), oracle(der));
    }

    #[test]
    fn it_reads_what_a_reader_for_everything_reads() {
        for years in [(1950, 1999), (1970, 2049), (2000, 2050), (1975, 4096)] {
            agrees(&made(&[], years));
            let long = format!("urn:x:{}", "y".repeat(70_000));
            agrees(&made(
                &["urn:a:b".to_owned(), "urn:c".to_owned(), long],
                years,
            ));
        }
    }

    #[test]
    fn a_time_is_of_a_day_that_there_was() {
        for (text, digits, expected) in [
            ("700101000000Z", 2, Some(0)),
            ("491231235959Z", 2, Some(2_524_607_999)),
            ("19700101000001Z", 4, Some(1)),
            ("700230000000Z", 2, None),
            ("700101240000Z", 2, None),
            ("7001010000Z", 2, None),
            ("70010100000 Z", 2, None),
            ("+00101000000Z", 2, None),
            ("700101000000+0000", 2, None),
            ("", 4, None),
        ] {
            assert_eq!(seconds(text, digits), expected, "{text}");
        }
    }

    #[test]
    fn what_is_cut_or_goes_on_is_not_read() {
        let der = made(&["urn:a".to_owned()], (2000, 2030));
        for length in 0..der.len() {
            Fields::of(&der[..length]).unwrap_err();
        }
        let mut longer = der.clone();
        longer.push(0);
        Fields::of(&longer).unwrap_err();
    }

    proptest! {
        /// One byte that differs is refused, or read as the oracle reads it: which believes a key though bytes follow
        /// it in its own element, and that is the one thing that it does not decide here.
        #[test]
        fn a_byte_that_differs(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut der = made(&["urn:a".to_owned()], (2000, 2030));
            let at = at.index(der.len());
            der[at] = byte;
            if let (Some(found), Some(expected)) = (found(&der), oracle(&der)) {
                prop_assert_eq!((found.0, found.1, found.3), (expected.0, expected.1, expected.3));
            }
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _read = Fields::of(&bytes);
        }
    }
}
