//! A program with reqwest for plain http, and OpenTelemetry's exporter with its default features.
//! Neither has chosen a TLS library.

use opentelemetry_otlp::SpanExporter;
use svc_sdk::EmailClient;

fn main() {
    // The README says so: with `rustls-ring`, the program names the provider of all others.
    #[cfg(feature = "rustls-ring")]
    rustls::crypto::ring::default_provider().install_default().expect("the first");

    let client = EmailClient::builder("https://mail.test", "mk_test_x");
    client.build().expect("a client with TLS");

    reqwest::Client::new();
    // The blocking client must not be made, nor dropped, in async code.
    SpanExporter::builder()
        .with_http()
        .build()
        .expect("an exporter of traces");
}
