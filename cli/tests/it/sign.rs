//! `svc sign` and `svc verify`: both schemes, and what a mismatch is.

use crate::support::Home;

const BODY: &str = r#"{"event":"email.sent","id":"1"}"#;

fn sign(home: &Home, service: &str, secret: &str) -> String {
    let run = home.feed(&["sign", "--service", service, "--secret-file", secret, "-"], BODY);
    assert_eq!(run.code, 0, "{run:?}");
    run.json()["signature"].as_str().expect("a signature").to_owned()
}

#[test]
fn what_is_signed_verifies_in_both_schemes() {
    let home = Home::new();
    let secret = home.file("secret", "whsec_3f1c\n");
    for (service, prefix) in [("email", ""), ("extraction", "sha256=")] {
        let signature = sign(&home, service, &secret);
        assert!(signature.starts_with(prefix) && signature.len() == prefix.len() + 64);
        let body = home.file("body", BODY);
        let args =
            ["verify", "--service", service, "--secret-file", &secret, "--signature", &signature];
        let run = home.run(&[&args[..], &[&body]].concat());
        assert_eq!((run.code, run.json()["verified"].clone()), (0, true.into()), "{run:?}");
    }
}

/// RFC 4231, test case 2.
#[test]
fn signatures_are_the_published_ones() {
    let home = Home::new();
    let secret = home.file("secret", "Jefe");
    let args = ["sign", "--service", "email", "--secret-file", &secret];
    let run = home.feed(&args, "what do ya want for nothing?");
    assert_eq!(
        run.json()["line"],
        "Mail-Signature: 5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

#[test]
fn a_mismatch_is_explained_and_malformed_ones_are_mismatches_too() {
    let home = Home::new();
    let secret = home.file("secret", "whsec_3f1c");
    let signature = sign(&home, "email", &secret);
    let verify = |signature: &str, body: &str| {
        let args =
            ["verify", "--service", "email", "--secret-file", &secret, "--signature", signature];
        home.feed(&args, body)
    };
    let newline = verify(&signature, &format!("{BODY}\n"));
    assert_eq!((newline.code, newline.stdout.as_str()), (10, ""), "{newline:?}");
    assert_eq!(newline.error()["fields"][0]["field"], "newline_added");
    for malformed in ["", "zz", &signature[1..], &format!("sha256={signature}")] {
        assert_eq!(verify(malformed, BODY).code, 10, "{malformed}");
    }
}

#[test]
fn unusable_secrets_and_unreadable_bodies_are_wrong_input() {
    let home = Home::new();
    let good = home.file("good", "whsec_3f1c");
    for secret in ["", "\n", " whsec", "whsec\n\n"] {
        let file = home.file("bad", secret);
        let args = ["verify", "--service", "email", "--secret-file", &file, "--signature", "x"];
        let run = home.feed(&args, BODY);
        assert_eq!(run.code, 2, "{secret:?}: {run:?}");
        assert!(!run.stderr.contains("whsec"), "{run:?}");
    }
    let args =
        ["verify", "--service", "email", "--secret-file", &good, "--signature", "x", "/nope"];
    assert_eq!(home.run(&args).code, 2);
}
