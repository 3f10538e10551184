//! A separate server per test, with a new organization and clients of both services.

use serde_json::{Value, json};
use svc_reference_server::Server;
use svc_sdk::{Dialect, EmailClient, ExtractionClient};

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

    /// Starts a server with these switches, each as `NAME=VALUE`
    /// (`docs/undocumented/README.md`).
    pub(crate) async fn with(switches: &[&str]) -> Self {
        let mut builder = Server::builder().in_memory();
        let dialect = Dialect::with(switches.iter().copied()).expect("valid choices");
        builder = builder.dialect(dialect.clone());
        let server = builder.start().await.expect("the server starts");
        let base = server.base_url();
        // The control interface requires no key on loopback.
        let control = EmailClient::builder(&base, "none")
            .build()
            .expect("a client");
        let created = post(
            &control,
            "/_sandbox/organizations",
            &json!({"name": "Lovelace"}),
        )
        .await;
        let text = |field: &str| created[field].as_str().expect("a string").to_owned();
        let email = EmailClient::builder(&base, text("email_key"))
            .dialect(dialect)
            .insecure_webhook_urls(true)
            .build()
            .expect("a client");
        let extraction = ExtractionClient::builder(&base, text("extraction_key"))
            .build()
            .expect("a client");
        Self {
            server,
            email,
            extraction,
            organization: text("id"),
        }
    }

    /// A client whose key has only these scopes.
    pub(crate) async fn client_with(&self, scopes: &[&str]) -> EmailClient {
        let request =
            json!({"organization": self.organization, "service": "email", "scopes": scopes});
        let created = self.control("/_sandbox/keys", &request).await;
        let key = created["key"]
            .as_str()
            .expect("the key of a new key resource");
        EmailClient::builder(self.server.base_url(), key)
            .build()
            .expect("a client")
    }

    /// Creates a sending domain, publishes its records and verifies it.
    pub(crate) async fn verified_domain(&self, name: &str) {
        let domain = self
            .email
            .domains()
            .create(name)
            .await
            .expect("the domain is created");
        let organization = json!({"organization": self.organization});
        self.control(&format!("/_sandbox/dns/{name}/publish"), &organization)
            .await;
        let verification = self
            .email
            .domains()
            .verify(&domain.id)
            .await
            .expect("a response");
        assert!(verification.is_verified(), "{verification:?}");
    }

    /// Sends a request to the control interface.
    pub(crate) async fn control(&self, path: &str, body: &Value) -> Value {
        post(&self.email, path, body).await
    }

    pub(crate) async fn advance(&self, duration: &str) -> Value {
        self.control("/_sandbox/clock", &json!({"advance": duration}))
            .await
    }

    pub(crate) async fn freeze(&self) {
        self.control("/_sandbox/clock", &json!({"freeze": true}))
            .await;
    }
}

async fn post(client: &EmailClient, path: &str, body: &Value) -> Value {
    let response = client
        .raw("POST", path)
        .json(body)
        .await
        .expect("the control interface responds");
    match response.body.as_ref() {
        b"" => Value::Null,
        _ => response.json().expect("the control interface returns JSON"),
    }
}
