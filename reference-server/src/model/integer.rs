//! Integers in JSON requests, as JSON Schema defines them: `2.0` is an integer. The
//! range is the one that all JSON parsers represent exactly (RFC 8259, section 6).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// The largest accepted integer; the smallest is `-MAX_SAFE_INTEGER`.
pub(crate) const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Deserializes an optional integer. For `deserialize_with`, together with `default`.
pub(crate) fn integer<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let Some(number) = Option::<Number>::deserialize(deserializer)? else {
        return Ok(None);
    };

    let from_float = |float: f64| {
        let fits = float.abs() <= MAX_SAFE_INTEGER as f64;
        (float.fract() == 0.0 && fits).then_some(float as i64)
    };

    let float = number.as_f64().filter(|_| number.is_f64());
    let integer = number.as_i64().or_else(|| float.and_then(from_float));
    let integer =
        integer.filter(|integer| (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(integer));
    let value = integer.and_then(|integer| T::try_from(integer).ok());
    value
        .map(Some)
        .ok_or_else(|| D::Error::custom("must be an integer within the allowed range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Holder {
        #[serde(default, deserialize_with = "integer")]
        value: Option<u16>,
    }

    #[test]
    fn accepts_a_zero_fraction() {
        let read = |text: &str| {
            serde_json::from_str::<Holder>(text)
                .map(|holder| holder.value)
                .ok()
        };

        assert_eq!(read(r#"{"value":2}"#), Some(Some(2)));
        assert_eq!(read(r#"{"value":2.0}"#), Some(Some(2)));
        assert_eq!(read(r#"{"value":null}"#), Some(None));
        assert_eq!(read("{}"), Some(None));
        for wrong in ["2.5", "-1", "65536", "1e300", r#""2""#] {
            assert_eq!(read(&format!(r#"{{"value":{wrong}}}"#)), None, "{wrong}");
        }
    }
}
