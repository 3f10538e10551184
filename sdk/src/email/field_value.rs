//! The types that the methods of an email take as the value of a field.

use serde_json::{Map, Value};

/// A JSON value of a header, a tag, a variable or an additional field: a text, a number, a bool, or
/// any [`serde_json::Value`] converts into it.
///
/// ```
/// use svc_sdk::email::Email;
///
/// let customer = String::from("ada");
/// let email = Email::new("hello@shop.example", "ada@example.com", "Hi")
///     .tag("customer", &customer)
///     .variable("total", 42);
/// assert_eq!(email.tags["customer"], "ada");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FieldValue(Value);

impl From<FieldValue> for Value {
    fn from(value: FieldValue) -> Self {
        value.0
    }
}

macro_rules! field_value_from {
    ($($type:ty),+) => {$(
        impl From<$type> for FieldValue {
            fn from(value: $type) -> Self {
                Self(value.into())
            }
        }
    )+};
}

field_value_from!(
    &str, String, Value, bool, f32, f64, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize,
    Map<String, Value>, Vec<Value>, Vec<String>, Vec<&str>
);

impl From<&String> for FieldValue {
    fn from(text: &String) -> Self {
        Self(text.as_str().into())
    }
}

impl From<&Value> for FieldValue {
    fn from(value: &Value) -> Self {
        Self(value.clone())
    }
}

impl<T: Into<Self>> From<Option<T>> for FieldValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self(Value::Null), Into::into)
    }
}
