//! Checks that every response in the tests matches the server's OpenAPI description.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::raw::RawResponse;
use crate::receiver::Received;

pub(crate) struct Description {
    document: Arc<Value>,
    validators: Arc<Validators>,
    /// The method, path and status of all responses that matched.
    seen: Mutex<BTreeSet<(String, String, u16)>>,
}

/// The validators of the schemas with the same components, by the text of the schema.
/// Creating one takes much longer than a request.
type Validators = Mutex<HashMap<String, Arc<Validator>>>;

/// Most servers have the same components. The key is their text.
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validators>>>> =
    LazyLock::new(Mutex::default);

impl Description {
    pub(crate) fn parse(text: &str) -> Self {
        let mut document: Value = serde_json::from_str(text).expect("JSON");
        close(&mut document);
        let components = document["components"].to_string();
        let validators = Arc::clone(
            VALIDATORS
                .lock()
                .expect("no panic")
                .entry(components)
                .or_default(),
        );
        Self {
            document: Arc::new(document),
            validators,
            seen: Mutex::default(),
        }
    }

    /// The same description, of which nothing was seen.
    pub(crate) fn again(&self) -> Self {
        let document = Arc::clone(&self.document);
        let validators = Arc::clone(&self.validators);
        Self {
            document,
            validators,
            seen: Mutex::default(),
        }
    }

    /// Every described operation: its method, its path and its success status.
    pub(crate) fn operations(&self) -> BTreeSet<(String, String, u16)> {
        let mut operations = BTreeSet::new();
        for (path, methods) in object(&self.document["paths"]) {
            for (method, operation) in object(methods) {
                let mut statuses = object(&operation["responses"]).keys();
                let success = statuses.find(|status| status.starts_with('2'));
                let success = success
                    .expect("a success status")
                    .parse()
                    .expect("a status");
                operations.insert((method.to_uppercase(), path.clone(), success));
            }
        }
        operations
    }

    pub(crate) fn seen(&self) -> BTreeSet<(String, String, u16)> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Panics if the response does not match the description of the operation in the
    /// request line, such as `GET /v1/me`.
    pub(crate) fn check(&self, line: &str, response: &RawResponse) {
        let (method, target) = line.split_once(' ').expect("a method and a path");
        let path = target.split('?').next().unwrap_or_default();
        let Some((path, operation)) = self.find(method, path) else {
            return;
        };

        let status = response.status.to_string();
        let described = self.resolve(&operation["responses"][&status]);
        assert!(
            described.is_object(),
            "{method} {path}: {status} is not described: {response:?}"
        );
        assert!(
            response.header("x-request-id").is_some(),
            "{method} {path}: {response:?}"
        );
        match described.get("content") {
            None => assert_eq!(
                response.body, "",
                "{method} {path}: {status} must have no body"
            ),
            Some(content) => {
                self.check_content(&format!("{method} {path}: {status}"), content, response);
            }
        }

        let seen = (method.to_owned(), path.clone(), response.status);
        self.seen.lock().expect("no panic").insert(seen);
    }

    /// All described events.
    pub(crate) fn events(&self) -> BTreeSet<String> {
        object(&self.document["webhooks"]).keys().cloned().collect()
    }

    /// Panics if a delivery or its headers do not match the description of the event.
    pub(crate) fn check_delivery(&self, event: &str, delivery: &Received) {
        let operation = &self.document["webhooks"][event]["post"];
        assert!(
            operation.is_object(),
            "{event} is not described: {delivery:?}"
        );

        let body: Value = serde_json::from_str(&delivery.body).expect("JSON");
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        self.check_schema(event, schema, &body);
        for header in operation["parameters"].as_array().expect("headers") {
            let name = header["name"].as_str().expect("a name");
            let text = delivery.header(name);
            let number = header["schema"]["type"] == "integer";
            let value = if number {
                json!(text.parse::<u64>().expect("a number"))
            } else {
                json!(text)
            };
            self.check_schema(&format!("{event}: {name}"), &header["schema"], &value);
        }
    }

    fn check_schema(&self, what: &str, schema: &Value, value: &Value) {
        let validator = self.validator(what, schema);
        let errors: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(
            errors.is_empty(),
            "{what} does not match its description: {errors:#?} in {value}"
        );
    }

    fn validator(&self, what: &str, schema: &Value) -> Arc<Validator> {
        let text = schema.to_string();
        let known = self
            .validators
            .lock()
            .expect("no panic")
            .get(&text)
            .cloned();
        known.unwrap_or_else(|| {
            // References in the schema point into `components`.
            let schema = json!({"allOf": [schema], "components": self.document["components"]});
            let validator = jsonschema::draft202012::options()
                .should_validate_formats(true)
                .build(&schema)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let validator = Arc::new(validator);
            self.validators
                .lock()
                .expect("no panic")
                .insert(text, Arc::clone(&validator));
            validator
        })
    }

    fn check_content(&self, what: &str, content: &Value, response: &RawResponse) {
        let essence = |text: &str| text.split(';').next().unwrap_or_default().trim().to_owned();
        let given = essence(response.header("content-type").unwrap_or_default());
        let found = object(content)
            .iter()
            .find(|(known, _)| *known == "*/*" || essence(known) == given);
        let (_, described) = found.unwrap_or_else(|| panic!("{what}: {given:?} is not described"));
        if !given.ends_with("json") {
            return;
        }

        let body: Value = serde_json::from_str(&response.body)
            .unwrap_or_else(|error| panic!("{what}: {error}: {response:?}"));
        self.check_schema(what, &described["schema"], &body);
        if let Some(examples) = described.get("examples") {
            let code = body
                .pointer("/error/code")
                .or(body.get("code"))
                .and_then(Value::as_str);
            let code = code.expect("a code");
            assert!(
                examples.get(code).is_some(),
                "{what}: the code {code} is not described"
            );
        }
    }

    /// Finds the operation of a request. Of several matching paths, the one with the fewest
    /// parameters wins.
    fn find(&self, method: &str, path: &str) -> Option<(&String, &Value)> {
        let method = method.to_lowercase();
        let paths = object(&self.document["paths"]).iter();
        let matching = paths.filter(|(template, _)| {
            let mut known = template.split('/');
            let mut given = path.split('/');
            let all = known.by_ref().zip(given.by_ref()).all(|(known, given)| {
                known == given || (known.starts_with('{') && !given.is_empty())
            });
            all && template.split('/').count() == path.split('/').count()
        });
        let best = matching.min_by_key(|(template, _)| template.matches('{').count())?;
        Some((best.0, best.1.get(&method)?))
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let Some(reference) = value["$ref"].as_str() else {
            return value;
        };
        let pointer = reference.trim_start_matches('#');
        self.document
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{reference} does not resolve"))
    }
}

/// Makes all object schemas reject undescribed fields. The description allows them, so
/// that clients stay compatible; in tests, such a field is missing in the description.
fn close(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(close);
            let is_closable = members.get("type").is_some_and(|kind| kind == "object")
                && members.get("properties").is_some_and(Value::is_object)
                && !members.contains_key("additionalProperties");
            if is_closable {
                members.insert("unevaluatedProperties".to_owned(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

fn object(value: &Value) -> &serde_json::Map<String, Value> {
    value.as_object().expect("an object")
}
