//! Sends one email, and prints advice if that fails.
//!
//! ```sh
//! svc sandbox serve &
//! SVC_EMAIL_URL=http://127.0.0.1:4080 SVC_EMAIL_KEY=mk_test_sandbox cargo run -p svc-sdk --example send
//! ```

use std::env;
use std::process::ExitCode;

use svc_sdk::email::{Attachment, Email};
use svc_sdk::{EmailClient, Error, ErrorKind, Outcome};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let from = env::var("FROM").unwrap_or_else(|_| "hello@sandbox.test".to_owned());
    let to = env::var("TO").unwrap_or_else(|_| "ada@example.test".to_owned());
    match send(&from, &to).await {
        Ok(id) => {
            print(&format!("accepted as {id}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            print(&format!("{error}\n{}", advice(&error)));
            ExitCode::FAILURE
        }
    }
}

async fn send(from: &str, to: &str) -> Result<String, Error> {
    let url = env::var("SVC_EMAIL_URL").unwrap_or_else(|_| "http://127.0.0.1:4080".to_owned());
    let key = env::var("SVC_EMAIL_KEY").unwrap_or_else(|_| "mk_test_sandbox".to_owned());
    let client = EmailClient::builder(url, key).build()?;

    let email = Email::new(from, to, "Your invoice")
        .text("It is attached.")
        .attachment(Attachment::from_bytes("invoice.txt", "42 euros"))
        .tag("kind", "invoice");
    Ok(client.emails().send(&email).await?.id)
}

fn advice(error: &Error) -> String {
    match (error.kind(), error.outcome()) {
        (
            ErrorKind::MissingScope {
                required: Some(scope),
                ..
            },
            _,
        ) => {
            format!("use a key with the scope {scope}")
        }
        (ErrorKind::Forbidden, _) if error.code() == Some("domain_not_verified") => {
            "verify the sender's domain first".to_owned()
        }
        (_, Outcome::NotSent) => "nothing was sent: it is safe to retry".to_owned(),
        (_, Outcome::Refused) => "the service rejected it: nothing was sent".to_owned(),
        _ => "it may have been sent: check before you send it again".to_owned(),
    }
}

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn print(text: &str) {
    println!("{text}");
}
