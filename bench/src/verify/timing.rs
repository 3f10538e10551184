//! Tests that the duration of a rejection does not depend on which byte of a forged
//! signature is wrong, in the style of dudect (Reparaz, Balasch, Verbauwhede: "Dude,
//! is my code constant time?").
//!
//! Two classes of forged signatures, wrong in the first and in the last byte, are
//! measured in random order. Welch's t-test determines whether the distributions
//! differ. A comparison that returns at the first different byte is the positive
//! control: if its leak is not detected, the measurement proves nothing. Exits with 1
//! if the control shows no leak, or the verification shows one.

use std::hint::black_box;
use std::time::Instant;

use webhook_verify::{Secret, Service, Signature, Verifier};

const SAMPLES: usize = 400_000;
/// Calls per sample: longer than the clock's noise, shorter than a time slice.
const CALLS: usize = 16;
/// dudect's threshold: a value above 10 is a leak, one below 4.5 is not.
const LEAK: f64 = 10.0;

fn main() {
    let secret = Secret::new("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let body = br#"{"event":"email.sent","id":"7c0e"}"#;
    let good = Signature::sign(Service::Email, &secret, body).to_string();
    let good = good.into_bytes().try_into().unwrap();
    let verifier = Verifier::email(secret);
    // A digit stays a digit and a letter a letter, so that both are decoded by the same branches:
    // that time depends on the header alone, which is public.
    let wrong_at = |digit: usize| {
        let mut header: [u8; 64] = good;
        header[digit] = match header[digit] {
            b'0' => b'1',
            b'1'..=b'9' => b'0',
            b'a' => b'b',
            _ => b'a',
        };
        header
    };

    let classes = [wrong_at(0), wrong_at(63)];

    let control = t_value(SAMPLES, classes, |header| bytewise_eq(&good, header));
    println!("control, byte-wise comparison:   |t| = {control:.1}");

    let whole = confirmed(|samples| {
        t_value(samples, classes, |header| {
            verifier.verify(header, &body[..]).is_ok()
        })
    });
    println!("verify:                          |t| = {whole:.1}");

    let parsed = classes.map(|header| Signature::parse(Service::Email, header).unwrap());
    let mac = confirmed(|samples| {
        t_value(samples, parsed, |signature| {
            verifier.verify_bytes(signature, body).is_ok()
        })
    });
    println!("verify_bytes:                    |t| = {mac:.1}");

    let detected = control > 10.0 * LEAK;
    let constant = whole < LEAK && mac < LEAK;
    println!(
        "{}",
        match (detected, constant) {
            (true, true) => "the control leaks and the verification does not",
            (true, false) => "FAILED: the verification leaks",
            (false, _) => "FAILED: the leak of the control was not detected",
        }
    );
    std::process::exit(i32::from(!(detected && constant)));
}

/// A comparison that leaks the position of the first different byte.
#[inline(never)]
fn bytewise_eq(a: &[u8], b: &[u8]) -> bool {
    for (a, b) in a.iter().zip(b) {
        if black_box(a) != black_box(b) {
            return false;
        }
    }
    true
}

/// |t|, from four times as many samples if fewer show a leak: that doubles the |t| of a leak, and not
/// that of what else the machine did for a moment.
fn confirmed(measure: impl Fn(usize) -> f64) -> f64 {
    let t = measure(SAMPLES);
    if t < LEAK { t } else { measure(4 * SAMPLES) }
}

/// The largest |t| over several cut-offs for slow samples, which are mostly caused by
/// interruptions.
fn t_value<T: Copy>(count: usize, classes: [T; 2], run: impl Fn(&T) -> bool) -> f64 {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let class = (random >> 33 & 1) as usize;
        // Copied to the same address for both classes, because the position relative
        // to cache lines affects the duration too.
        let input = black_box(classes[class]);
        let start = Instant::now();
        for _ in 0..CALLS {
            assert!(!black_box(run(black_box(&input))));
        }
        samples.push((class, start.elapsed().as_nanos() as f64));
    }

    // Drop the warm-up of caches and branch predictors.
    samples.drain(..count / 10);
    let mut sorted: Vec<f64> = samples.iter().map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    let cut_off = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    [0.5, 0.75, 0.9, 0.95, 0.99]
        .map(|share| welch(&samples, cut_off(share)).abs())
        .into_iter()
        .fold(0.0, f64::max)
}

fn welch(samples: &[(usize, f64)], at_most: f64) -> f64 {
    let [first, second] = [0, 1].map(|class| {
        let of_class = || {
            samples
                .iter()
                .filter(|s| s.0 == class && s.1 <= at_most)
                .map(|s| s.1)
        };
        let count = of_class().count() as f64;
        let mean = of_class().sum::<f64>() / count;
        let variance = of_class().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    });
    (first.0 - second.0) / (first.1 + second.1).sqrt()
}
