//! A server of the test's own, an organization in it, and clients for both.

use serde_json::{Value, json};
use svc_reference_server::Server;
use svc_sdk::{EmailClient, ExtractionClient};

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) email: EmailClient,
    pub(crate) extraction: ExtractionClient,
    pub(crate) organization: String,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// A server that chooses otherwise at some of the points that the
    /// documents leave open.
    pub(crate) async fn with(choices: &[&str]) -> Self {
        let mut builder = Server::builder().in_memory();
        for choice in choices {
            builder = builder.compatibility(choice).expect("a documented choice");
        }
        let server = builder.start().await.expect("the server starts");
        let base = server.base_url();
        // The control interface asks for no key on loopback.
        let control = EmailClient::builder(&base, "none").build().expect("a client");
        let made = post(&control, "/_sandbox/organizations", &json!({"name": "Lovelace"})).await;
        let text = |field: &str| made[field].as_str().expect("a text").to_owned();
        let email = EmailClient::builder(&base, text("email_key"))
            .insecure_webhook_urls(true)
            .build()
            .expect("a client");
        let extraction =
            ExtractionClient::builder(&base, text("extraction_key")).build().expect("a client");
        Self { server, email, extraction, organization: text("id") }
    }

    /// A client whose key has these scopes only.
    pub(crate) async fn client_with(&self, scopes: &[&str]) -> EmailClient {
        let wanted =
            json!({"organization": self.organization, "service": "email", "scopes": scopes});
        let made = self.control("/_sandbox/keys", &wanted).await;
        let key = made["key"].as_str().expect("the key, shown once");
        EmailClient::builder(self.server.base_url(), key).build().expect("a client")
    }

    /// A sending domain whose records are published and verified.
    pub(crate) async fn verified_domain(&self, name: &str) {
        let domain = self.email.domains().create(name).await.expect("the domain is created");
        let organization = json!({"organization": self.organization});
        self.control(&format!("/_sandbox/dns/{name}/publish"), &organization).await;
        let verification = self.email.domains().verify(&domain.id).await.expect("an answer");
        assert!(verification.is_verified(), "{verification:?}");
    }

    /// A request to the control interface.
    pub(crate) async fn control(&self, path: &str, body: &Value) -> Value {
        post(&self.email, path, body).await
    }

    pub(crate) async fn advance(&self, duration: &str) -> Value {
        self.control("/_sandbox/clock", &json!({"advance": duration})).await
    }

    pub(crate) async fn freeze(&self) {
        self.control("/_sandbox/clock", &json!({"freeze": true})).await;
    }
}

async fn post(client: &EmailClient, path: &str, body: &Value) -> Value {
    let answer = client.raw("POST", path).json(body).await.expect("the control interface answers");
    match answer.body.as_ref() {
        b"" => Value::Null,
        _ => answer.json().expect("the control interface answers JSON"),
    }
}
