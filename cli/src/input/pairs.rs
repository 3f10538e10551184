//! Parses `k=v` (text), `k:=JSON` and `Name: value` (headers).

use serde_json::{Map, Value};

use crate::failure::Failure;

/// A key with its value.
pub type Pair = (String, Value);

/// Parses `k=v` or `k:=JSON`, as clap's `value_parser`.
pub fn parse(text: &str) -> Result<Pair, String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` has no `=`: use key=text or key:=JSON"))?;
    let (key, value) = match key.strip_suffix(':') {
        Some(key) => {
            let read = super::read_json(value).and_then(|value| {
                if super::loses_digits(&value) {
                    Err(super::LOSES_DIGITS.to_owned())
                } else {
                    Ok(value)
                }
            });
            let value = read.map_err(|problem| format!("the value of `{key}`: {problem}"))?;
            (key, value)
        }
        None => (key, Value::from(value)),
    };
    if key.is_empty() {
        return Err(format!("`{text}` has no key before the `=`"));
    }
    Ok((key.to_owned(), value))
}

/// Parses `k=v` with a text value, as clap's `value_parser`.
pub fn parse_text(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not a key=value pair")),
    }
}

/// Parses `Name: value`, as clap's `value_parser`.
pub fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => (name.trim(), value.trim()),
        _ => return Err("it is not a header: use 'Name: value'".to_owned()),
    };
    if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "`{name}` is not the name of a header: it has spaces or other \
                            characters than visible ASCII"
        ));
    }
    // A line end would start another header.
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(format!(
            "the value of `{name}` contains a line end or a control character"
        ));
    }

    Ok((name.to_owned(), value.to_owned()))
}

/// Collects pairs into an object. A repeated key is an error.
pub fn object<V: Into<Value>>(
    option: &str,
    pairs: impl IntoIterator<Item = (String, V)>,
) -> Result<Map<String, Value>, Failure> {
    let mut map = Map::new();
    for (key, value) in pairs {
        if map.contains_key(&key) {
            return Err(Failure::usage(format!("{option}: `{key}` is given twice")));
        }
        map.insert(key, value.into());
    }
    Ok(map)
}

/// Collects headers into an object. A repeated name, in any case, is an error.
pub fn headers(option: &str, pairs: Vec<(String, String)>) -> Result<Map<String, Value>, Failure> {
    for (index, (name, _)) in pairs.iter().enumerate() {
        if pairs[..index]
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
        {
            return Err(Failure::usage(format!("{option}: `{name}` is given twice"))
                .hint("the case of a name does not matter; remove one"));
        }
    }
    object(option, pairs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn distinguishes_text_from_json() {
        assert_eq!(parse("a=1"), Ok(("a".into(), json!("1"))));
        assert_eq!(parse("a:=1"), Ok(("a".into(), json!(1))));
        assert_eq!(parse("a=b=c"), Ok(("a".into(), json!("b=c"))));
        assert_eq!(parse("a:=[1,{}]"), Ok(("a".into(), json!([1, {}]))));
        assert_eq!(parse("a="), Ok(("a".into(), json!(""))));
    }

    #[test]
    fn rejects_malformed_and_repeated_pairs() {
        for text in ["a", "=b", ":=1", "a:=", "a:={"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(object("--tag", [("a".to_owned(), "1"), ("a".to_owned(), "2")]).is_err());
        for (one, other) in [("X-A", "X-A"), ("X-A", "x-a")] {
            let pairs = [one, other].map(|name| (name.to_owned(), "1".to_owned()));
            let refused = headers("--header", pairs.into()).expect_err("refused");
            assert!(refused.message.contains(other));
        }
    }

    #[test]
    fn headers_split_at_the_first_colon() {
        assert_eq!(
            parse_header("X-Time: 10:30"),
            Ok(("X-Time".into(), "10:30".into()))
        );
        for text in [
            "none",
            ": x",
            "X Y: z",
            "{{ name }}: x",
            "X: a\r\nBcc: b@c.test",
            "X: \0",
        ] {
            assert!(parse_header(text).is_err(), "{text:?}");
        }
    }
}
