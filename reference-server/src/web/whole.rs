//! Whole numbers as JSON Schema counts them: `2.0` is one. They are within what
//! every reader of JSON holds exactly (RFC 8259 §6).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// And, with the other sign, the smallest.
pub(crate) const LARGEST: i64 = (1 << 53) - 1;

/// For `deserialize_with`, beside `default`.
pub(crate) fn whole<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(None) };
    let from_float = |float: f64| {
        let fits = float.abs() <= LARGEST as f64;
        (float.fract() == 0.0 && fits).then_some(float as i64)
    };
    let float = number.as_f64().filter(|_| number.is_f64());
    let whole = number.as_i64().or_else(|| float.and_then(from_float));
    let whole = whole.filter(|whole| (-LARGEST..=LARGEST).contains(whole));
    let value = whole.and_then(|whole| T::try_from(whole).ok());
    value.map(Some).ok_or_else(|| D::Error::custom("expected a whole number that is in range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Holder {
        #[serde(default, deserialize_with = "whole")]
        value: Option<u16>,
    }

    #[test]
    fn a_fraction_of_zero_is_none() {
        let read =
            |text: &str| serde_json::from_str::<Holder>(text).map(|holder| holder.value).ok();
        assert_eq!(read(r#"{"value":2}"#), Some(Some(2)));
        assert_eq!(read(r#"{"value":2.0}"#), Some(Some(2)));
        assert_eq!(read(r#"{"value":null}"#), Some(None));
        assert_eq!(read("{}"), Some(None));
        for wrong in ["2.5", "-1", "65536", "1e300", r#""2""#] {
            assert_eq!(read(&format!(r#"{{"value":{wrong}}}"#)), None, "{wrong}");
        }
    }
}
