//! Runs a sandbox inside the program, schedules an email for tomorrow, and moves the clock there.
//!
//! ```sh
//! cargo run -p svc-reference-server --example reminder
//! ```

use std::error::Error;
use std::time::Duration;

use svc_reference_server::Server;
use svc_sdk::email::Email;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // In memory, on a free port.
    let server = Server::start().await?;
    let client = server.email_client()?;
    let sandbox = server.client()?;

    let now = sandbox.freeze().await?.now;
    let email = Email::new("hello@sandbox.test", "ada@example.test", "Reminder")
        .text("Your trial ends today.")
        .scheduled_at(*now + DAY);
    let accepted = client.emails().send(&email).await?;
    print(&format!("accepted: {:?}", accepted.status));

    // Returns when all that is due was done.
    sandbox.advance(DAY).await?;
    let message = sandbox.wait_for("ada@example.test").await?;
    print(&format!("delivered: {}", message.subject));
    server.stop().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn print(text: &str) {
    println!("{text}");
}
