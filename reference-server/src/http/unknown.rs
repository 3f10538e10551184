//! The fields of a request that its type does not have
//! (`docs/undocumented/README.md#unknown-request-fields`).

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::model::nearest::did_you_mean;
use crate::model::typed::is_name;
use crate::model::{Failure, Problems, Result};

/// Returns an error that lists them, each with the known field that was probably meant.
pub(super) fn refuse<T: JsonSchema>(body: &[u8]) -> Result<()> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = T::json_schema(&mut settings.for_deserialize().into_generator()).to_value();
    // It was parsed before.
    let body = serde_json::from_slice(body).map_err(Failure::internal)?;
    let mut problems = Problems::default();
    find(&schema, &body, "", &mut problems);
    problems.check()
}

fn find(schema: &Value, value: &Value, path: &str, problems: &mut Problems) {
    match (value, &schema["properties"]) {
        (Value::Object(fields), Value::Object(known)) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (name, value) in fields {
                match known.get(name) {
                    Some(schema) => find(schema, value, &format!("{path}{dot}{name}"), problems),
                    None => {
                        let meant = did_you_mean(name, known.keys());
                        // The name is the client's; repeat it only if it can be a field's name.
                        let name = if is_name(name) { name } else { "" };
                        let message = format!("is not a field of this request{meant}");
                        problems.add(format!("{path}{dot}{name}"), message);
                    }
                }
            }
        }
        (Value::Array(items), _) => {
            for (index, item) in items.iter().enumerate() {
                find(
                    &schema["items"],
                    item,
                    &format!("{path}[{index}]"),
                    problems,
                );
            }
        }
        _ => {}
    }
}
