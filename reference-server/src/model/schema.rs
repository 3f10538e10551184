//! Schemas of strings with a format. The request and response types refer to them:
//! `#[schemars(with = "schema::Time")]`.

use schemars::json_schema;
use svc_sdk::{Scope, Service};

use crate::model::address::RESERVED_HEADERS;
use crate::model::event::Event;
use crate::model::scope::EMAIL_SCOPES;

/// Defines types that exist only for their schema.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident => $schema:expr $(,)?)*) => { $(
        $(#[$doc])*
        pub(crate) struct $name;

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    )* };
}
pub(crate) use formats;

formats! {
    /// RFC 3339 in UTC with milliseconds (`docs/undocumented/README.md#timestamps`).
    Time => json_schema!({"type": "string", "format": "date-time"}),

    /// The time to send an email. The server also accepts other forms than `date-time`.
    /// `anyOf` instead of a list of types, which some tools misread as any string.
    SendingTime => json_schema!({
        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}],
    }),

    /// A number with `ms`, `s`, `m`, `h` or `d`.
    Duration => json_schema!({
        "type": "string",
        "format": "duration-with-unit",
        "pattern": "^([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ms|s|m|h|d)$",
        "examples": ["90s", "250ms"],
    }),

    /// The ID of a resource: a UUID, which may have a prefix.
    Id => json_schema!({"type": "string", "pattern": "^([a-z]+_)?[0-9a-fA-F-]{36}$"}),

    /// A time, or the ID of a resource.
    Position => {
        let mut generator = schemars::SchemaGenerator::default();
        let time = generator.subschema_for::<Time>();
        let id = generator.subschema_for::<Id>();
        json_schema!({"anyOf": [time, id]})
    }

    /// `a@b` or `Name <a@b>` (`docs/undocumented/services.md#addresses`).
    Mailbox => json_schema!({
        "type": "string",
        "format": "mailbox",
        "minLength": 3,
        "examples": ["Ada Lovelace <ada@sandbox.test>", "ada@sandbox.test"],
    }),

    /// One to fifty mailboxes.
    Recipients => {
        let one = schemars::SchemaGenerator::default().subschema_for::<Mailbox>();
        json_schema!({
            "anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": 50}],
        })
    }

    /// Custom headers by name, except `Content-*`, which the server sets.
    MessageHeaders => json_schema!({
        "type": "object",
        "propertyNames": {
            "minLength": 1,
            "maxLength": 76,
            // Printable ASCII except the colon.
            "pattern": "^(?![Cc][Oo][Nn][Tt][Ee][Nn][Tt]-)[!-9;-~]+$",
            "not": {"enum": RESERVED_HEADERS},
        },
        "additionalProperties": {
            "type": "string",
            "pattern": "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f]*$",
        },
    }),

    /// Base64 (RFC 4648, section 4) without line breaks.
    Base64 => json_schema!({
        "type": "string",
        "contentEncoding": "base64",
        "pattern":
            "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
    }),

    /// Events of the email service.
    EmailEvents => events(Service::Email),
    /// Events of the extraction service.
    ExtractionEvents => events(Service::Extraction),
    ExtractionEvent => event(Service::Extraction),
    /// Events of either service.
    EventsOfOneService => json_schema!({
        "anyOf": [events(Service::Email), events(Service::Extraction)],
    }),

    /// Scopes of the email service.
    EmailScopes => json_schema!({
        "type": "array",
        "items": {"type": "string", "enum": EMAIL_SCOPES.map(Scope::as_str)},
    }),
}

fn events(service: Service) -> schemars::Schema {
    json_schema!({"type": "array", "items": event(service), "minItems": 1})
}

fn event(service: Service) -> schemars::Schema {
    let of_service = Event::ALL.iter().filter(|event| event.service() == service);
    let names: Vec<&str> = of_service.map(|event| event.as_str()).collect();
    json_schema!({"type": "string", "enum": names})
}
