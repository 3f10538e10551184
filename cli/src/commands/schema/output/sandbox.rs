//! Output schemas of the `svc sandbox` commands.

use serde_json::{Value, json};

use super::{boolean, integer, list, nullable, one_of, own_object, service_object, string};

/// The schema of a type of the local server. A build without it has none.
macro_rules! derived {
    ($name:ident) => {{
        #[cfg(feature = "sandbox")]
        let schema = schema_of::<svc_reference_server::client::$name>();
        #[cfg(not(feature = "sandbox"))]
        let schema = json!({"description": stringify!($name)});
        schema
    }};
}

pub(super) fn of(path: &str) -> Option<Value> {
    Some(match path.strip_prefix("sandbox ")? {
        "serve" => json!({
            "type": "object",
            "description": "one line, printed when the server is ready",
            "properties": {
                "http": string(),
                "dns": string(),
                "smtp": nullable("string"),
                "data": nullable("string"),
                "control_token": string(),
            },
            "required": ["http", "dns", "smtp", "data"],
            "additionalProperties": false,
        }),
        "status" => service_object(&[
            ("status", one_of(&["ok", "not running"])),
            ("data", string()),
            ("version", string()),
            ("now", string()),
            (
                "addresses",
                service_object(&[
                    ("http", string()),
                    ("dns", string()),
                    ("smtp", nullable("string")),
                ]),
            ),
        ]),
        "stop" => json!({
            "type": "object",
            "properties": {"stopped": boolean(), "http": string()},
            "required": ["stopped"],
            "additionalProperties": false,
        }),
        "open" | "messages open" => own_object(&[("url", string()), ("opened", boolean())]),
        "organizations create" => derived!(Organization),
        "organizations list" => list(derived!(OrganizationSummary)),
        "keys create" => derived!(Key),
        "keys list" => list(derived!(Key)),
        "templates put" | "templates get" => derived!(Template),
        "templates list" => list(derived!(TemplateSummary)),
        "templates render" => json!({"anyOf": [
            derived!(RenderedTemplate),
            own_object(&[("text", json!({"type": "string", "description": "with --html or --text"}))]),
        ]}),
        "dns publish" => derived!(Published),
        "dns withdraw" | "faults remove" | "reset" => own_object(&[("ok", boolean())]),
        "emails list" => list(derived!(EmailSummary)),
        "emails story" => derived!(EmailStory),
        "requests list" => list(derived!(LoggedRequest)),
        "requests get" => derived!(LoggedRequest),
        "requests tail" => json!({
            "description": "one line each: `ready`, then every request",
            "anyOf": [derived!(LiveEvent)],
        }),
        "messages list" => list(derived!(MessageSummary)),
        "messages wait" => derived!(Message),
        "messages get" => json!({"anyOf": [
            derived!(Message),
            own_object(&[("text", json!({"type": "string", "description": "with --raw or --html"}))]),
            derived!(MessageLinks),
            json!({
                "description": "with --attachments: the saved files",
                "type": "array",
                "items": own_object(&[
                    ("path", string()),
                    ("filename", nullable("string")),
                    ("contentType", string()),
                    ("size", integer()),
                ]),
            }),
        ]}),
        "event" => {
            service_object(&[("id", string()), ("status", string()), ("lastEvent", string())])
        }
        "inbound" => derived!(Received),
        "extraction" => derived!(Extraction),
        "deliveries list" => list(derived!(Delivery)),
        "deliveries get" | "deliveries replay" => derived!(Delivery),
        "clock show" | "clock freeze" | "clock advance" | "clock resume" => derived!(Clock),
        "faults add" | "faults get" => derived!(Fault),
        "faults list" => list(derived!(Fault)),
        _ => return None,
    })
}

/// One line each: what changes on the local server.
pub(super) fn watched() -> Value {
    json!({
        "description": "one line each: `ready`, then whatever changes",
        "anyOf": [derived!(LiveEvent)],
    })
}

#[cfg(feature = "sandbox")]
fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
