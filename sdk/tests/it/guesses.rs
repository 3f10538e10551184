//! What people try without reading: it compiles.

use svc_sdk::email::{Attachment, Email, EmailRecord, EmailStatus, NewAudience, NewDomain};
use svc_sdk::{Error, ErrorKind, Event, Operation, Outcome};

use crate::mock_server::MockServer;

#[test]
fn predicates_names_and_values_have_the_usual_names() {
    let error = |kind| Error::new(kind, Outcome::Refused);
    assert!(error(ErrorKind::Conflict).is_conflict());
    assert!(error(ErrorKind::Server).is_server_error());
    assert!(!error(ErrorKind::Invalid).is_conflict());
    assert_eq!(Operation::EmailsSend.as_str(), "email emails.send");

    for operation in Operation::ALL {
        assert_eq!(operation.as_str(), operation.to_string());
        assert_eq!(
            operation.as_str(),
            format!("{} {}", operation.service(), operation.name())
        );
    }

    assert_eq!(EmailStatus::from("cancelled"), EmailStatus::Cancelled);
    assert_eq!(EmailStatus::from("scheduled"), EmailStatus::Scheduled);

    let record = EmailRecord {
        id: "eml_1".to_owned(),
        ..EmailRecord::default()
    };
    assert_eq!((record.id.as_str(), record.status), ("eml_1", None));

    let customer = String::from("ada");
    let email = Email::new("a@b", "c@d", "s")
        .tag("customer", &customer)
        .tag("count", 3)
        .variable("paid", true)
        .variable("name", None::<&str>)
        .header("X-Customer", &customer);
    assert_eq!(email.tags["customer"], "ada");
    assert_eq!(email.variables["name"], serde_json::Value::Null);
}

/// An application matches on one list of names, whichever crate reads the event.
#[test]
fn events_are_those_of_webhook_verify() {
    let source = include_str!("../../../webhook-verify/src/delivery.rs");
    let (_, names) = source.split_once("\nevents! {").unwrap();
    let (names, _) = names.split_once("\n}").unwrap();
    let mut count = 0;
    for line in names.lines().filter(|line| line.contains(" = ")) {
        let (name, text) = line.trim().split_once(" = ").unwrap();
        let text = text.trim_matches(['"', ',']);
        let event = Event::from(text);
        assert_eq!(format!("{event:?}"), name);
        assert_eq!(event.as_str(), text);
        count += 1;
    }

    assert_eq!(count, 10);
}

#[test]
fn the_error_of_a_path_names_it() {
    let error = Attachment::from_path("/no/such/invoice.pdf").unwrap_err();
    assert!(
        error.to_string().starts_with("/no/such/invoice.pdf: "),
        "{error}"
    );
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);

    let error = Attachment::from_path(std::env::temp_dir()).unwrap_err();
    assert!(
        error.to_string().ends_with(": not a regular file"),
        "{error}"
    );
}

#[tokio::test]
async fn whatever_is_sent_can_have_additional_fields() {
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client = server.email().build().unwrap();
    let logo = || Attachment::from_bytes("logo.png", "abc").extra("contentId", "logo");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "abc").unwrap();
    let from_path = Attachment::from_path(file.path()).unwrap().filename("f");
    let email = Email::new("a@b", "c@d", "s")
        .attachment(logo())
        .attachment(from_path.extra("x", 1))
        .attachment(Attachment::from_base64("b", "YWJj").extra("x", 2));
    client.emails().send(&email).await.unwrap();
    client
        .audiences()
        .create(NewAudience::new("Readers").extra("x", "1"))
        .await
        .unwrap();
    client.audiences().create("Readers").await.unwrap();
    client
        .domains()
        .create(NewDomain::new("x.test").extra("region", "eu"))
        .await
        .unwrap();

    let bodies: Vec<_> = server
        .received_requests()
        .into_iter()
        .map(|request| request.body)
        .collect();
    let attachments = concat!(
        r#""attachments":[{"filename":"logo.png","contentId":"logo","content":"YWJj"},"#,
        r#"{"filename":"f","x":1,"content":"YWJj"},{"filename":"b","x":2,"content":"YWJj"}]}"#
    );
    assert!(bodies[0].ends_with(attachments), "{}", bodies[0]);
    assert_eq!(
        bodies[1..],
        [
            r#"{"name":"Readers","x":"1"}"#,
            r#"{"name":"Readers"}"#,
            r#"{"name":"x.test","region":"eu"}"#
        ]
    );

    let twice = Email::new("a@b", "c@d", "s").attachment(logo().extra("content", "x"));
    let error = client.emails().send(&twice).await.unwrap_err();
    assert!(
        error.to_string().contains("attachments[0].content"),
        "{error}"
    );

    let read: Attachment = serde_json::from_value(serde_json::to_value(logo()).unwrap()).unwrap();
    assert_eq!(read.extra["contentId"], "logo");
}
