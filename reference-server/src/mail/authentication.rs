//! Checks SPF and DKIM of a message that arrives. `check` takes the address and the domain of the
//! sending host and the source, and returns an `Authentication`, at the latest after
//! `CHECK_TIMEOUT` for each of the two. A failure is a verdict, not an error: nothing is rejected
//! because of it. `without_own_results` removes `Authentication-Results` that claim to be from this
//! server, before its own are added. SPF is in `dns/spf.rs`, DKIM in `authentication/signatures.rs`.

mod signatures;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::mail::dns::{self, Resolver};
use crate::mail::header::{Field, Header};
use crate::messages::message_wire::{Authentication, DkimResult, DkimVerdict, SpfVerdict};
use crate::model::dns::INBOUND_HOST;
use crate::model::error::Failure;
use crate::model::time::Millis;

/// Maximum duration of each of the checks, in real time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// Checks a message from a host with this address and domain. Without them, the SPF result is
/// `none`.
pub(crate) async fn check(
    resolver: &Resolver,
    peer: Option<(IpAddr, &str)>,
    source: &Arc<Vec<u8>>,
    now: Millis,
) -> Result<Authentication, Failure> {
    let spf = match peer {
        None => SpfVerdict::None,
        Some((address, domain)) => {
            let spf = dns::evaluate_spf(resolver, address, domain);
            timeout(CHECK_TIMEOUT, spf)
                .await
                .unwrap_or(SpfVerdict::TempError)
        }
    };
    let timed_out = DkimResult {
        result: DkimVerdict::TempError,
        ..DkimResult::default()
    };
    let dkim = timeout(CHECK_TIMEOUT, signatures::verify(resolver, source, now)).await;
    Ok(Authentication {
        spf,
        dkim: dkim.unwrap_or(Ok(timed_out))?,
    })
}

/// The message without fields that claim to be this server's results (RFC 8601 §5).
pub(crate) fn without_own_results(source: Vec<u8>) -> Vec<u8> {
    let header = Header::parse(&source);
    let claims_to_be_own =
        |field: &Field<'_>| field.is("Authentication-Results") && names_this_server(field.value());
    if !header.fields.iter().any(claims_to_be_own) {
        return source;
    }

    let mut kept = Vec::with_capacity(source.len());
    for field in header
        .fields
        .iter()
        .filter(|field| !claims_to_be_own(field))
    {
        kept.extend_from_slice(field.raw);
        kept.extend_from_slice(b"\r\n");
    }

    kept.extend_from_slice(b"\r\n");
    kept.extend_from_slice(header.body);
    kept
}

/// Whether the identifier before the results contains this server's name, which may be quoted, and
/// between comments.
fn names_this_server(value: &[u8]) -> bool {
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let identifier: Vec<u8> = identifier(value).iter().filter(is_name).copied().collect();
    let identifier = String::from_utf8_lossy(&identifier).to_ascii_lowercase();
    identifier.contains(INBOUND_HOST)
}

/// The text before the first semicolon outside of comments and quotes.
fn identifier(value: &[u8]) -> &[u8] {
    let mut comments = 0_usize;
    let mut is_quoted = false;
    let mut bytes = value.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            // The next one is escaped.
            b'\\' => _ = bytes.next(),
            b'"' if comments == 0 => is_quoted = !is_quoted,
            b'(' if !is_quoted => comments += 1,
            b')' if !is_quoted => comments = comments.saturating_sub(1),
            b';' if comments == 0 && !is_quoted => return &value[..at],
            _ => {}
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::dkim::{SANDBOX_KEY, SigningKey};
    use crate::mail::dns::testing;
    use crate::mail::mime::Incoming;
    use crate::model::dns::RecordKind;

    /// What a person sees of a message. White space is of no account, since a signature may ignore it.
    fn shown(message: &[u8]) -> Option<Vec<String>> {
        let message = Incoming::parse(message);
        let text = |text: Option<String>| text.unwrap_or_default();
        let mut shown = vec![
            message.from,
            message.subject,
            text(message.text),
            text(message.html),
        ];
        for file in message.attachments {
            shown.push(String::from_utf8_lossy(&file.content).into_owned());
        }

        let words = shown.iter().map(|text| text.split_whitespace().collect());
        Some(words.collect())
    }

    fn signed(message: &str) -> Vec<u8> {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("a key");
        let message = message.replace('\n', "\r\n");
        let field = key
            .sign("sandbox.test", "s1", message.as_bytes())
            .expect("signed");
        format!("{field}{message}").into_bytes()
    }

    /// Changes one to three places of a message.
    fn mutate(mut message: Vec<u8>, mut random: impl FnMut(usize) -> usize) -> Vec<u8> {
        for _ in 0..=random(3) {
            let lines: Vec<&[u8]> = message.split_inclusive(|&byte| byte == b'\n').collect();
            let line = random(lines.len());
            let start: usize = lines[..line].iter().map(|line| line.len()).sum();
            let end = start + lines[line].len();
            let fragment = FRAGMENTS[random(FRAGMENTS.len())].as_bytes().to_vec();
            let any = random(message.len());
            match random(8) {
                0 => message[any] = random(256) as u8,
                1 => drop(message.remove(any)),
                2 => drop(message.splice(any..any, fragment)),
                3 | 4 => drop(message.splice(start..start, fragment)),
                5 => drop(message.splice(end.saturating_sub(2)..end.saturating_sub(2), fragment)),
                6 => drop(message.drain(start..end)),
                _ => {
                    let copy = message[start..end].to_vec();
                    let to = message[..any].iter().rposition(|&byte| byte == b'\n');
                    let to = to.map_or(0, |at| at + 1);
                    drop(message.splice(to..to, copy));
                }
            }
        }
        message
    }

    const FRAGMENTS: [&str; 24] = [
        "From: eve@evil.test\r\n",
        "\rFrom: eve@evil.test\r\n",
        "\u{b}From: eve@evil.test\r\n",
        "\u{c}From: eve@evil.test\r\n",
        "Fr\u{f6}m: eve@evil.test\r\n",
        "Subject: Pay\r\n",
        "subject : Pay\r\n",
        "To: \"x\\\r\n",
        "X-Y: (\"\r\n",
        "Content-Type: text/html\r\n",
        "Content-Type: multipart/mixed; boundary=x\r\n",
        "Content-Transfer-Encoding: base64\r\n",
        "Content-Disposition: attachment\r\n",
        "Content-Disposition: inline\r\n",
        "X-Y: z\r\n",
        "\r\n",
        " \r\n",
        " ",
        "\t",
        "\n",
        "\r",
        "\0",
        "--b\r\n",
        "=",
    ];

    /// The relaxed form of a body has no white space at the end of lines.
    #[test]
    fn white_space_on_the_empty_line_of_a_part_changes_nothing_that_is_shown() {
        let message = |empty: &str| {
            format!(
                "From: a@sandbox.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
                 --b\r\nContent-Type: text/plain\r\n{empty}\r\nThe: text\r\n--b--\r\n"
            )
        };

        let plain = shown(message("").as_bytes());
        assert!(plain.as_ref().is_some_and(|shown| shown[2] == "The:text"));
        for empty in [" ", "\t", "  \t "] {
            assert_eq!(shown(message(empty).as_bytes()), plain, "{empty:?}");
        }
    }

    #[tokio::test]
    async fn white_space_that_hides_a_signed_part_breaks_the_signature() {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("a key");
        let record = key.record();
        let records = [(RecordKind::Dkim, "s1._domainkey.sandbox.test", &*record)];
        let resolver = Resolver::new(testing::zone(&records), None);
        let source = signed(
            "From: ada@sandbox.test\nContent-Type: multipart/mixed; boundary=\"b c\"\n\n\
             --b c\n\nPay 10\n--b c\n\nnot before June\n--b c--\n",
        );
        let changed = String::from_utf8(source.clone()).expect("text");
        let changed = changed.replacen("--b c\r\n\r\nnot", "--b  c\r\n\r\nnot", 1);
        for (message, verdict) in [
            (source, DkimVerdict::Pass),
            (changed.into_bytes(), DkimVerdict::PermError),
        ] {
            let found = signatures::verify(&resolver, &Arc::new(message), 0).await;
            assert_eq!(found.expect("a result").result, verdict);
        }
    }

    /// As in most replies that Thunderbird sends, signed in the relaxed form.
    #[tokio::test]
    async fn quotes_that_flow_keep_a_signature() {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("a key");
        let record = key.record();
        let records = [(RecordKind::Dkim, "s1._domainkey.sandbox.test", &*record)];
        let resolver = Resolver::new(testing::zone(&records), None);
        let source = signed(
            "From: ada@sandbox.test\nContent-Type: text/plain; format=flowed\n\n\
             > a long \n> line\nA long \nanswer\n-- \nAda\n",
        );

        let text = Incoming::parse(&source).text;
        assert_eq!(
            text.as_deref(),
            Some("> a long line\r\nA long answer\r\n-- \r\nAda\r\n")
        );
        let found = signatures::verify(&resolver, &Arc::new(source), 0).await;
        assert_eq!(found.expect("a result").result, DkimVerdict::Pass);
    }

    #[tokio::test]
    async fn no_change_of_what_is_shown_keeps_a_signature() {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("a key");
        let record = key.record();
        let records = [(RecordKind::Dkim, "s1._domainkey.sandbox.test", &*record)];
        let resolver = Resolver::new(testing::zone(&records), None);
        let sources = [
            "From: Ada <ada@sandbox.test>\nTo: b@example.test\nSubject: Hello\n there\n\nOne\n\nTwo \n",
            "From: ada@sandbox.test\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n\
             Content-Type: text/plain; charset=utf-8\n\
             Content-Transfer-Encoding: quoted-printable\n\nGr=C3=BC=C3=9Fe, a long=\n line.\n",
            "From: ada@sandbox.test\nSubject: Parts\nMIME-Version: 1.0\n\
             Content-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: text/plain\n\n\
             The: text\n\nand more\n--b\nContent-Type: text/html\n\n<p>Hi</p>\n--b\n\
             Content-Type: text/csv; name=a.csv\nContent-Transfer-Encoding: base64\n\neCx5\n--b--\n",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };

        let mut passed = 0;
        for round in 0..2_001 {
            let source = signed(sources[round % sources.len()]);
            let changed = Arc::new(mutate(source.clone(), &mut random));
            let found = signatures::verify(&resolver, &changed, 0)
                .await
                .expect("a result");
            if found.result == DkimVerdict::Pass {
                passed += 1;
                assert_eq!(
                    shown(&changed),
                    shown(&source),
                    "{}",
                    String::from_utf8_lossy(&changed).escape_debug()
                );
            }
        }

        // Added fields, and other white space, change nothing. They are few: most of the fragments are
        // refused wherever they are, as line breaks other than CRLF, control characters, or fields
        // that are shown and not signed, and a message has up to three changes.
        assert!(passed > 20, "only {passed} passed");
    }

    #[test]
    fn own_results_are_removed_and_those_of_other_servers_stay() {
        let removed = |value: &str| {
            let field = format!("X: y\r\nauthentication-results:{value}; dkim=pass\r\n");
            let rest = "From: a@b.test\r\n\r\nHello\r\n";
            let source = without_own_results(format!("{field}{rest}").into_bytes());
            let source = String::from_utf8(source).expect("text");
            assert!(source.starts_with("X: y\r\n") && source.ends_with(rest));
            !source.contains("pass")
        };
        for own in [
            " inbound.sandbox.localhost",
            "\r\n Inbound.SANDBOX.localhost 1",
            " \"inbound.sandbox\\.localhost\"",
            " (a comment) inbound.sandbox.localhost",
            " (a;b \\) (c)) inbound.sandbox.localhost",
            " \";\" inbound.sandbox.localhost",
            " (a;b (c;d) \\);) inbound.sandbox.localhost",
        ] {
            assert!(removed(own), "{own:?}");
        }
        for other in [
            " mx.example.test",
            " mx.example.test; x=inbound.sandbox.localhost",
        ] {
            assert!(!removed(other), "{other:?}");
        }
    }
}
