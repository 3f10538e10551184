//! Any split into pieces is the body in one piece, for signing and for
//! verifying, and any other body is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webhook_verify::{MailSigner, MailVerifier, Secret};

fuzz_target!(|input: (&[u8], Vec<u16>, u16)| {
    let (body, cuts, flipped) = input;
    let secret = || Secret::new("whsec_fuzz").unwrap();
    let signer = MailSigner::new(&secret());
    let header = signer.sign(body).to_string();
    let verifier = MailVerifier::rotating([Secret::new("newer").unwrap(), secret()]).unwrap();
    assert_eq!(verifier.verify(&header, body).unwrap().matched_secret(), 1);

    let mut signing = signer.begin();
    let mut verifying = verifier.begin(&header).unwrap();
    let mut collecting = verifier.collect(&header, body.len()).unwrap();
    let mut rest = body;
    for cut in cuts.into_iter().map(usize::from).chain([usize::MAX]) {
        let (piece, later) = rest.split_at(cut.min(rest.len()));
        rest = later;
        signing.update(piece);
        verifying.update(piece);
        collecting.push(piece).unwrap();
    }
    assert_eq!(signing.finish().to_string(), header);
    assert_eq!(verifying.finish().unwrap().matched_secret(), 1);
    assert_eq!(collecting.finish().unwrap().body(), body);

    let mut collecting = verifier.collect(&header, body.len()).unwrap();
    collecting.push(body).unwrap();
    assert!(collecting.push([0]).is_err(), "past the limit");
    assert!(collecting.finish().is_err(), "a piece is missing");

    if !body.is_empty() {
        let mut other = body.to_vec();
        let at = usize::from(flipped) % other.len();
        other[at] ^= 1 << (flipped >> 13);
        assert!(verifier.verify(&header, other).is_err());
    }
});
