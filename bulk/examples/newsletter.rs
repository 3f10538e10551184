//! Sends an email to each address of a file, one address a line. Run it again after a kill, or with more
//! addresses in the file: it sends to those who are left, and to nobody twice.
//!
//! ```sh
//! svc sandbox serve &
//! cargo run -p svc-bulk --example newsletter -- addresses.txt
//! ```

use std::convert::Infallible;
use std::env;
use std::error::Error;
use std::fs;

use svc_bulk::{BulkSend, Ledger, NewRow, NewSend};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("give a file with addresses")?;
    let url = env::var("SVC_EMAIL_URL").unwrap_or_else(|_| "http://127.0.0.1:4080".to_owned());
    let key = env::var("SVC_EMAIL_KEY").unwrap_or_else(|_| "mk_test_sandbox".to_owned());
    let client = EmailClient::builder(url, key).build()?;
    let ledger = Ledger::sqlite(format!("{path}.db")).await?;

    // What an earlier run has not sent.
    for send in ledger.sends().await? {
        if !send.is_complete() {
            let sender = BulkSend::new(&client);
            sender.run(&ledger, &send.id, newsletter).await?;
        }
    }

    let mut news = NewSend::new("newsletter of the week");
    news.rate = 50.0;
    ledger.draft(&news).await?;
    let mut rows = Vec::new();
    for (number, address) in (1..).zip(fs::read_to_string(&path)?.lines()) {
        rows.push(NewRow::new(number, address, &address)?);
    }

    ledger.add(&news.id, &rows).await?;
    ledger.leave_out_sent(&news.id).await?;
    ledger.start(&news.id, &news.settings, None).await?;

    let sender = BulkSend::new(&client);
    let totals = sender.run(&ledger, &news.id, newsletter).await?;
    print(&format!(
        "{} accepted, {} refused, {} unknown",
        totals.accepted, totals.refused, totals.unknown
    ));
    Ok(())
}

fn newsletter(address: &String) -> Result<Email, Infallible> {
    Ok(Email::new("hello@sandbox.test", address, "News").text("Nothing new this week."))
}

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn print(text: &str) {
    println!("{text}");
}
