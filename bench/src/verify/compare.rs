//! Compares the CPU time of a complete verification, including parsing the header,
//! with other libraries.
//!
//! For each body size, all candidates run in turn, in short slices over many rounds.
//! The result is the median of the ratios within each round, so that changes of the
//! clock frequency and other load affect both sides of a ratio. Exits with 1 if a
//! target is missed.

use std::hint::black_box;

use cpu_time::ThreadTime;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use webhook_verify::{Secret, Service, Signature, Verifier};

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SIZES: [(&str, usize); 5] = [
    ("200 B", 200),
    ("1 KiB", 1024),
    ("16 KiB", 16 * 1024),
    ("1 MiB", 1024 * 1024),
    ("100 MiB", 100 * 1024 * 1024),
];

fn main() {
    let mut missed = Vec::new();
    for (name, size) in SIZES {
        // ASCII, because `standardwebhooks` rejects bodies that are not UTF-8.
        let body: Vec<u8> = (0..size).map(|n| b'a' + (n * 31 % 26) as u8).collect();
        let case = Case::new(&body);
        let figures = measure(&case.candidates(), size);
        figures.report(name, size);
        missed.extend(figures.missed(name, size));
    }
    if missed.is_empty() {
        println!("all targets are met");
    } else {
        for missed in missed {
            println!("MISSED: {missed}");
        }
        std::process::exit(1);
    }
}

struct Candidate<'a> {
    name: &'static str,
    run: Box<dyn Fn() + 'a>,
}

const OURS: &str = "this crate";
const PLAIN: &str = "hmac+sha2+subtle";
const RING: &str = "ring";

fn candidate<'a>(name: &'static str, run: Box<dyn Fn() + 'a>) -> Candidate<'a> {
    Candidate { name, run }
}

fn parse_ours(header: &str) -> Signature {
    Signature::parse(Service::Extraction, header).unwrap()
}

struct Case<'a> {
    body: &'a [u8],
    header: String,
    verifier: Verifier,
    rotating: Verifier,
    plain: Hmac<Sha256>,
    ring: ring::hmac::Key,
    aws: aws_lc_rs::hmac::Key,
    peer_secret: peer_webhook_verify::Secret,
    peer_headers: Vec<(String, String)>,
    standard: standardwebhooks::Webhook,
    standard_headers: HeaderMap,
}

impl<'a> Case<'a> {
    fn new(body: &'a [u8]) -> Self {
        let secret = || Secret::new(SECRET).unwrap();
        let header = Signature::sign(Service::Extraction, &secret(), body).to_string();
        let newest = Secret::new("another").unwrap();
        let standard = standardwebhooks::Webhook::new(SECRET).unwrap();
        Self {
            body,
            verifier: Verifier::extraction(secret()),
            rotating: Verifier::with_secrets(Service::Extraction, [newest, secret()]).unwrap(),
            plain: Hmac::new_from_slice(SECRET.as_bytes()).unwrap(),
            ring: ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes()),
            aws: aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes()),
            peer_secret: peer_webhook_verify::Secret::new(SECRET),
            peer_headers: vec![("X-Hub-Signature-256".to_owned(), header.clone())],
            standard_headers: standard_headers(&standard, body),
            standard,
            header,
        }
    }

    fn candidates(&self) -> Vec<Candidate<'_>> {
        vec![
            candidate(
                OURS,
                Box::new(|| {
                    let signature = parse_ours(black_box(&self.header));
                    black_box(
                        self.verifier
                            .verify_bytes(&signature, black_box(self.body))
                            .unwrap(),
                    );
                }),
            ),
            candidate(
                "this crate, the older of two",
                Box::new(|| {
                    let signature = parse_ours(black_box(&self.header));
                    black_box(
                        self.rotating
                            .verify_bytes(&signature, black_box(self.body))
                            .unwrap(),
                    );
                }),
            ),
            candidate(
                PLAIN,
                Box::new(|| {
                    let tag = parse_header(black_box(&self.header));
                    let mut mac = self.plain.clone();
                    mac.update(black_box(self.body));
                    let expected = mac.finalize().into_bytes();
                    assert!(bool::from(expected.as_slice().ct_eq(&tag)));
                }),
            ),
            candidate(
                RING,
                Box::new(|| {
                    let tag = parse_header(black_box(&self.header));
                    ring::hmac::verify(&self.ring, black_box(self.body), &tag).unwrap();
                }),
            ),
            candidate(
                "aws-lc-rs",
                Box::new(|| {
                    let tag = parse_header(black_box(&self.header));
                    aws_lc_rs::hmac::verify(&self.aws, black_box(self.body), &tag).unwrap();
                }),
            ),
            candidate(
                "webhook-verify of crates.io",
                Box::new(|| {
                    peer_webhook_verify::verify(
                        peer_webhook_verify::Provider::GitHub,
                        black_box(&self.peer_headers),
                        black_box(self.body),
                        &self.peer_secret,
                        Default::default(),
                    )
                    .unwrap();
                }),
            ),
            candidate(
                "standardwebhooks",
                Box::new(|| {
                    let headers = black_box(&self.standard_headers);
                    self.standard.verify(black_box(self.body), headers).unwrap();
                }),
            ),
        ]
    }
}

/// Parses the header for candidates that only compute the MAC. Does not allocate,
/// unlike `hex::decode`.
fn parse_header(header: &str) -> [u8; 32] {
    let mut tag = [0; 32];
    hex::decode_to_slice(header.strip_prefix("sha256=").unwrap(), &mut tag).unwrap();
    tag
}

fn standard_headers(webhook: &standardwebhooks::Webhook, body: &[u8]) -> HeaderMap {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = i64::try_from(now.as_secs()).unwrap();
    let signature = webhook.sign("msg_1", now, body).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", "msg_1".parse().unwrap());
    headers.insert("webhook-timestamp", now.into());
    headers.insert("webhook-signature", signature.parse().unwrap());
    headers
}

struct Figures {
    names: Vec<&'static str>,
    /// Nanoseconds per call, for each candidate and round.
    rounds: Vec<Vec<f64>>,
}

fn measure(candidates: &[Candidate<'_>], size: usize) -> Figures {
    // Short enough to be rarely interrupted, long enough for the resolution of the
    // clock.
    let calls = (200_000 / (size + 400)).max(1) as u32;
    let rounds = (4_000_000_000 / (u64::from(calls) * (size as u64 + 400))).clamp(9, 2000);
    let mut figures = vec![Vec::new(); candidates.len()];
    for _ in 0..rounds {
        for (candidate, figures) in candidates.iter().zip(&mut figures) {
            let start = ThreadTime::now();
            for _ in 0..calls {
                (candidate.run)();
            }
            figures.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
        }
    }

    Figures {
        names: candidates.iter().map(|candidate| candidate.name).collect(),
        rounds: figures,
    }
}

impl Figures {
    fn of(&self, name: &str) -> &[f64] {
        &self.rounds[self
            .names
            .iter()
            .position(|candidate| *candidate == name)
            .unwrap()]
    }

    /// The median over all rounds of the ratio of two candidates' times.
    fn ratio(&self, name: &str, of: &str) -> f64 {
        median(
            self.of(name)
                .iter()
                .zip(self.of(of))
                .map(|(a, b)| a / b)
                .collect(),
        )
    }

    fn report(&self, name: &str, size: usize) {
        println!("{name}");
        for candidate in &self.names {
            let nanos = median(self.of(candidate).to_vec());
            let rate = size as f64 / nanos;
            let ours = self.ratio(OURS, candidate);
            println!(
                "  {candidate:<31} {nanos:>12.0} ns  {rate:>5.2} GB/s  this/other {ours:>5.2}"
            );
        }
    }

    /// Descriptions of the targets that are missed.
    fn missed(&self, name: &str, size: usize) -> Vec<String> {
        let mut missed = Vec::new();
        let mut at_most = |limit: f64, ratio: f64, of: &str| {
            if ratio > limit {
                missed.push(format!("{name}: {ratio:.3} of {of}, target {limit}"));
            }
        };

        if size == 200 {
            at_most(1.10, self.ratio(OURS, PLAIN), PLAIN);
        }
        if size >= 16 * 1024 {
            for peer in self.names.iter().filter(|name| !name.starts_with(OURS)) {
                at_most(1.02, self.ratio(OURS, peer), peer);
            }
        }
        missed
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
