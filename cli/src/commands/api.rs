//! `svc api`: calls any path of a service and prints the response as it came, as JSON, or page
//! after page with `--all`. Whether the request may be repeated follows from its method alone,
//! because the operation may not be documented: only GET and HEAD count as idempotent.
//! `Context::send_raw` sends it.

use std::ffi::OsString;

use clap::Args;
use reqwest::header::HeaderMap;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Call, ListStream, RawResponse, Service, StatusCode};

use crate::command_spec::creates;
use crate::complete::{Values, at_file};
use crate::context::{Context, PLAIN};
use crate::failure::Failure;
use crate::input::{choice, pairs};
use crate::output::{Format, to_value};
use crate::output_schema::{any_of, of, response};
use crate::prepared::Prepared;

/// Call any path of a service's API
///
/// The path need not be documented. Requests other than GET and HEAD are retried only if they were
/// certainly not processed.
#[derive(Args, Debug)]
#[command(add = creates(&[], || any_of(&[response, of::<NotJson>])).with_any_operation().with_scope("depends on the operation"))]
#[command(after_long_help = "\
  svc api GET /api/v1/audiences
  svc api POST /api/v1/audiences -f name=Newsletter
  svc api POST /api/v1/audiences --data '{\"name\": \"Newsletter\"}'
  svc api -i DELETE /api/v1/audiences/aud_019a
  svc api GET /v1/extractions --service extraction
  svc api GET /api/v1/audiences/aud_019a/contacts --all -o ndjson")]
pub struct Api {
    /// HTTP method: GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS
    #[arg(value_parser = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"], ignore_case = true, hide_possible_values = true)]
    method: String,
    /// Path below the base URL, with its query string
    #[arg(add = Values::Path.candidates())]
    path: String,
    /// Service [default: chosen by the path]
    ///
    /// Paths below /v1/ belong to the extraction service, all others to the email service.
    #[arg(
        long,
        value_name = "email|extraction",
        value_parser = choice::service(),
        hide_possible_values = true,
        hide_short_help = true
    )]
    service: Option<Service>,
    /// Request body: text, @file or - for stdin
    #[arg(short, long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    data: Option<OsString>,
    /// Field of the JSON body: key=text or key:=JSON; repeatable
    ///
    /// In a GET or HEAD request, fields are parameters of the query.
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = pairs::parse, conflicts_with = "data")]
    field: Vec<pairs::Pair>,
    /// Request header; repeatable
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = pairs::parse_header)]
    header: Vec<(String, String)>,
    /// Print the status and the headers of the response before its body
    #[arg(short, long, conflicts_with = "all")]
    include: bool,
    /// Fetch every page of a list, within --timeout over all of them (GET only)
    #[arg(long, conflicts_with = "data")]
    all: bool,
}

impl Api {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let service = self.service.unwrap_or_else(|| guess(&self.path));
        let method = self.method.to_ascii_uppercase();
        let path = self.path;
        let reads = matches!(method.as_str(), "GET" | "HEAD");
        if self.all && !reads {
            return Err(Failure::usage(
                "--all fetches the pages of a list and needs the method GET",
            ));
        }
        if self.include && context.out.is_for_programs() {
            return Err(Failure::usage(
                "--include prints the response as it came and cannot be combined with --output, \
                 --json and --jq",
            ));
        }

        let fields = pairs::object("--field", self.field)?;
        let body = match &self.data {
            Some(data) => Some(context.text("--data", data)?),
            None if fields.is_empty() || reads => None,
            None => Some(to_value(&fields)?.to_string()),
        };
        let raw: Box<dyn Fn() -> Call<RawResponse> + Send + Sync> = match service {
            Service::Email => {
                let client = context.clients.email_client().await?;
                Box::new(move || client.raw(&method, &path))
            }
            _ => {
                let client = context.clients.extraction_client().await?;
                Box::new(move || client.raw(&method, &path))
            }
        };
        let headers = self.header;
        let call = move || {
            let mut call = raw();
            for (key, value) in fields.iter().filter(|_| reads) {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                call = call.query(key, text);
            }
            let mut content_type = "application/json";
            for (name, value) in &headers {
                if name.eq_ignore_ascii_case("content-type") {
                    content_type = value;
                } else {
                    call = call.header(name, value);
                }
            }
            match &body {
                Some(body) => call.body(body.clone(), content_type),
                None => call,
            }
        };

        let first = context.caller.with_options(call().idempotent(reads));
        let first = Prepared::new(first).decide(context).await?;
        if self.all {
            let reading = all_pages(context, ListStream::of_raw(call));
            return context.caller.within_timeout(reading).await;
        }

        let sent = context.caller.send_raw(first, reads, "calling").await;
        let response = sent.map_err(|error| {
            if let Some(status) = error.status().filter(|_| self.include) {
                // The failure matters more than a closed standard output.
                let _ = include(context, status, error.headers(), error.body());
            }
            Failure::from_sdk(&error, reads)
        })?;
        if self.include {
            return include(context, response.status, &response.headers, &response.body);
        }

        show(context, &response)
    }
}

fn guess(path: &str) -> Service {
    if path.starts_with("/v1/") {
        Service::Extraction
    } else {
        Service::Email
    }
}

/// A response that is not JSON.
#[derive(Serialize, JsonSchema)]
pub struct NotJson<'a> {
    status: u16,
    /// The body, unless it is empty.
    text: Option<&'a str>,
}

/// Prints the response as it came: status, headers, an empty line and the body.
fn include(
    context: &Context,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(), Failure> {
    let mut text = format!("HTTP {status}\n");
    for (name, value) in headers {
        text.push_str(&format!(
            "{name}: {}\n",
            String::from_utf8_lossy(value.as_bytes())
        ));
    }

    text.push('\n');
    text.push_str(&String::from_utf8_lossy(body));
    context.out.raw_data(&text)
}

fn show(context: &Context, response: &RawResponse) -> Result<(), Failure> {
    let status = response.status.as_u16();
    if response.body.is_empty() {
        return context
            .out
            .done(&status.to_string(), &NotJson { status, text: None });
    }
    match response.json::<Value>() {
        Ok(value) => context.out.value(&value),
        Err(_) => {
            let text = response.text();
            context.out.document(
                &text,
                &NotJson {
                    status,
                    text: Some(&text),
                },
            )
        }
    }
}

/// Prints every item of a list, whatever its pages are.
async fn all_pages(context: &Context, mut items: ListStream<Value>) -> Result<(), Failure> {
    let streams = context.out.format() == Format::Ndjson;
    let mut all = Vec::new();
    let failed = loop {
        match items.try_next().await {
            Ok(Some(item)) if streams => context.out.part(&item)?,
            Ok(Some(item)) => all.push(item),
            Ok(None) => break None,
            // Reads, whatever the path: another try does no harm.
            Err(error) => break Some(Failure::from_sdk(&error, true)),
        }
    };
    match failed {
        None if streams => Ok(()),
        None => context.out.value(&Value::from(all)),
        Some(failure) => {
            if failure.is_incomplete_list() && !streams {
                context.out.part_of_list(&all, PLAIN)?;
            }
            Err(failure)
        }
    }
}
