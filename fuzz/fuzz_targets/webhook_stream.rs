//! Checks that verifying in chunks equals verifying the complete body, and that any other body is
//! rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webhook_verify::{Rejection, Secret, Service, Signature, Verifier};

fuzz_target!(|input: (&[u8], Vec<u16>, u16)| {
    let (body, cuts, flipped) = input;
    let secret = || Secret::new("whsec_fuzz").unwrap();
    let signature = Signature::sign(Service::Email, &secret(), body);
    let newest_first = [Secret::new("newer").unwrap(), secret()];
    let verifier = Verifier::with_secrets(Service::Email, newest_first).unwrap();
    assert_eq!(verifier.verify_bytes(&signature, body), Ok(1));

    let mut stream = verifier.stream(&signature);
    let mut rest = body;
    for cut in cuts {
        let (chunk, left) = rest.split_at(usize::from(cut).min(rest.len()));
        stream.update(chunk);
        rest = left;
    }
    stream.update(rest);
    assert_eq!(stream.finish(), Ok(1));

    let mut other = body.to_vec();
    match other.get_mut(usize::from(flipped)) {
        Some(byte) => *byte ^= 1,
        None => other.push(0),
    }
    assert_eq!(
        verifier.verify_bytes(&signature, &other),
        Err(Rejection::Mismatch)
    );
});
