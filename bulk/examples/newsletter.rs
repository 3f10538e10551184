//! Sends an email to each address of a file, one address a line. Killed and started again, it goes on
//! where it ended: nobody gets the email twice.
//!
//! ```sh
//! svc sandbox serve &
//! cargo run -p svc-bulk --example newsletter -- addresses.txt
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::{env, iter};

use futures_util::stream;
use svc_bulk::{Job, JobInfo, Journal};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("give a file with addresses")?;
    let url = env::var("SVC_EMAIL_URL").unwrap_or_else(|_| "http://127.0.0.1:4080".to_owned());
    let key = env::var("SVC_EMAIL_KEY").unwrap_or_else(|_| "mk_test_sandbox".to_owned());
    let client = EmailClient::builder(url, key).build()?;

    // A row is known by its number, so the lines must stay in their order.
    let addresses = BufReader::new(File::open(&path)?).lines();
    let rows =
        iter::zip(1.., addresses).map(|(row, address)| address.map(|address| (row, address)));

    let mut journal = Journal::open(format!("{path}.journal"), &JobInfo::new("newsletter"))?;
    let totals = Job::new(&client)
        .rate(50)
        .run(
            stream::iter(rows),
            |address| Ok::<_, io::Error>(newsletter(address)),
            &mut journal,
        )
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
