//! Checks that signing and verifying in chunks equals signing and verifying the
//! complete body, and that any other body is rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webhook_verify::{MailSigner, MailVerifier, Secret};

fuzz_target!(|input: (&[u8], Vec<u16>, u16)| {
    let (body, cuts, flipped) = input;
    let secret = || Secret::new("whsec_fuzz").unwrap();
    let signer = MailSigner::new(&secret());
    let header = signer.sign(body).to_string();
    let verifier = MailVerifier::with_secrets([Secret::new("newer").unwrap(), secret()]).unwrap();
    assert_eq!(verifier.verify(&header, body).unwrap().matched_secret(), 1);

    let mut stream_signer = signer.sign_stream();
    let mut stream = verifier.verify_stream(&header).unwrap();
    let mut buffered = verifier.verify_buffered(&header, body.len()).unwrap();
    let mut rest = body;
    for cut in cuts.into_iter().map(usize::from).chain([usize::MAX]) {
        let (chunk, remaining) = rest.split_at(cut.min(rest.len()));
        rest = remaining;
        stream_signer.update(chunk);
        stream.update(chunk);
        buffered.push(chunk).unwrap();
    }
    assert_eq!(stream_signer.finish().to_string(), header);
    assert_eq!(stream.finish().unwrap().matched_secret(), 1);
    assert_eq!(buffered.finish().unwrap().body(), body);

    let mut buffered = verifier.verify_buffered(&header, body.len()).unwrap();
    buffered.push(body).unwrap();
    assert!(buffered.push([0]).is_err(), "exceeds the limit");
    assert!(buffered.finish().is_err(), "a chunk is missing");

    if !body.is_empty() {
        let mut other = body.to_vec();
        let at = usize::from(flipped) % other.len();
        other[at] ^= 1 << (flipped >> 13);
        assert!(verifier.verify(&header, other).is_err());
    }
});
