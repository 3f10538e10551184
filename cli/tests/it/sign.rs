//! `svc sign` and `svc verify`, with both signature schemes.

use crate::support::{Home, Service};

const BODY: &str = r#"{"event":"email.sent","id":"1"}"#;

fn sign(home: &Home, service: &str, secret: &str) -> String {
    let run = home.run_with_input(
        &[
            "sign",
            "--service",
            service,
            "--secret-file",
            secret,
            "--json",
        ],
        BODY,
    );
    assert_eq!(run.code, 0, "{run:?}");
    run.json()["signature"]
        .as_str()
        .expect("a signature")
        .to_owned()
}

#[test]
fn sign_and_verify_round_trip_in_both_schemes() {
    let home = Home::new();
    let secret = home.file("secret", "whsec_3f1c\n");
    for (service, prefix) in [("email", ""), ("extraction", "sha256=")] {
        let signature = sign(&home, service, &secret);
        assert!(signature.starts_with(prefix) && signature.len() == prefix.len() + 64);
        let body = home.file("body", BODY);
        let args = [
            "verify",
            "--service",
            service,
            "--secret-file",
            &secret,
            "--signature",
            &signature,
        ];
        let run = home.run(&[&args[..], &[&body]].concat());
        assert_eq!(
            (run.code, run.json()["verified"].clone()),
            (0, true.into()),
            "{run:?}"
        );
    }
}

/// RFC 4231, test case 2.
#[test]
fn signatures_match_the_published_test_vector() {
    let home = Home::new();
    let secret = home.file("secret", "Jefe");
    let args = ["sign", "--service", "email", "--secret-file", &secret];
    let run = home.run_with_input(&args, "what do ya want for nothing?");
    assert_eq!(
        run.stdout,
        "Mail-Signature: 5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843\n"
    );
}

#[test]
fn mismatches_are_diagnosed_and_malformed_signatures_do_not_match() {
    let home = Home::new();
    let secret = home.file("secret", "whsec_3f1c");
    let signature = sign(&home, "email", &secret);
    let verify = |signature: &str, body: &str| {
        let args = [
            "verify",
            "--service",
            "email",
            "--secret-file",
            &secret,
            "--signature",
            signature,
        ];
        home.run_with_input(&args, body)
    };

    let newline = verify(&signature, &format!("{BODY}\n"));
    assert_eq!(
        (newline.code, newline.stdout.as_str()),
        (10, ""),
        "{newline:?}"
    );
    assert_eq!(newline.error()["fields"][0]["field"], "whitespace_changed");

    for malformed in ["", "zz", &signature[1..], &format!("sha256={signature}")] {
        assert_eq!(verify(malformed, BODY).code, 10, "{malformed}");
    }
}

#[test]
fn the_whole_header_line_is_accepted() {
    let home = Home::new();
    let secret = home.file("secret", "whsec_x");
    let args = ["sign", "--service", "email", "--secret-file", &secret];
    let line = home.run_with_input(&args, BODY).stdout;
    let verify = |service: &str| {
        let args = ["verify", "--service", service, "--secret-file", &secret];
        home.run_with_input(
            &[&args[..], &["--signature", line.trim_end()]].concat(),
            BODY,
        )
    };

    assert_eq!(verify("email").code, 0, "{line}");

    let other = verify("extraction");
    assert_eq!(
        (other.code, &other.error()["hint"]),
        (2, &"use --service email".into())
    );
}

#[test]
fn invalid_secrets_and_unreadable_bodies_are_invalid_input() {
    let home = Home::new();
    let good = home.file("good", "whsec_3f1c");
    for secret in ["", "\n", " whsec", "whsec\n\n", "{\"secret\": \"whsec\"}\n"] {
        let file = home.file("bad", secret);
        let args = [
            "verify",
            "--service",
            "email",
            "--secret-file",
            &file,
            "--signature",
            "x",
        ];
        let run = home.run_with_input(&args, BODY);
        assert_eq!(run.code, 2, "{secret:?}: {run:?}");
        assert!(!run.stderr.contains("whsec"), "{run:?}");
    }

    let args = [
        "verify",
        "--service",
        "email",
        "--secret-file",
        &good,
        "--signature",
        "x",
        "/nope",
    ];
    assert_eq!(home.run(&args).code, 2);
}

#[test]
fn trigger_hints_at_another_secret_after_401() {
    let home = Home::new();
    let application = Service::always(401, "");
    let to = application.url();
    let run = home.run(&["-o", "table", "trigger", "email.sent", "--to", &to]);
    assert_eq!(run.code, 10, "{run:?}");

    let note = "signed with the secret of `svc listen --print-secret`\n";
    assert!(run.stderr.starts_with(note), "{run:?}");
    assert!(
        run.stderr
            .contains("\n  give the application's signing secret with --secret-file"),
        "{run:?}"
    );
}
