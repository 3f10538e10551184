//! Sends an email to each address of a file, one address a line. Killed and started again, it goes on
//! where it ended: nobody gets the email twice.
//!
//! ```sh
//! svc sandbox serve &
//! cargo run -p svc-bulk --example newsletter -- addresses.txt
//! ```

use std::env;
use std::error::Error;
use std::fs;

use svc_bulk::{BulkSend, Ledger, LedgerErrorKind, NewRow, NewSend};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("give a file with addresses")?;
    let url = env::var("SVC_EMAIL_URL").unwrap_or_else(|_| "http://127.0.0.1:4080".to_owned());
    let key = env::var("SVC_EMAIL_KEY").unwrap_or_else(|_| "mk_test_sandbox".to_owned());
    let client = EmailClient::builder(url, key).build()?;

    let ledger = Ledger::sqlite(format!("{path}.db")).await?;
    let mut news = NewSend::new("news of November");
    news.id = "news-of-november".to_owned();
    news.rate = 50.0;

    // What was stored is what is sent, whatever becomes of the file.
    let is_known = match ledger.send(&news.id).await {
        Ok(_) => true,
        Err(error) if error.kind() == LedgerErrorKind::NotFound => false,
        Err(error) => return Err(error.into()),
    };
    if !is_known {
        let addresses = fs::read_to_string(&path)?;
        let rows = (1..).zip(addresses.lines());
        let rows = rows.map(|(number, address)| NewRow::new(number, address, &address));
        ledger
            .create(&news, rows.collect::<Result<Vec<_>, _>>()?)
            .await?;
    }

    let totals = BulkSend::new(&client)
        .run(&ledger, &news.id, |address: &String| {
            Ok::<_, String>(newsletter(address))
        })
        .await?;
    print(&format!(
        "{} accepted, {} refused, {} unknown",
        totals.accepted, totals.refused, totals.unknown
    ));
    Ok(())
}

fn newsletter(address: &str) -> Email {
    Email::new("hello@sandbox.test", address, "News").text("Nothing new this week.")
}

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn print(text: &str) {
    println!("{text}");
}
