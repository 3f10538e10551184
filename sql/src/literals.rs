//! How statements are sent to PostgreSQL, with any driver: the simple query protocol. Several are
//! one message, so they need one round trip, and nothing has a name that PgBouncer would have to
//! know.

use std::time::Duration;

use crate::Value;

/// How long the server may take for a statement of its own. It then says what the statement has
/// waited for, before a client that waits longer gives it up.
const STATEMENT: Duration = Duration::from_secs(4);

/// The clock of the database. It does not stand still within a transaction, and an index can use it.
const NOW: &str = "(date_part('epoch', statement_timestamp()) * 1000)::bigint";

/// A statement with its parameters as literals.
pub fn with_literals(statement: &str, parameters: &[Value]) -> String {
    let statement = statement.replace("now_ms()", NOW);
    let mut parts = statement.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        let index = number.parse::<usize>().unwrap_or_default();
        let value = index.checked_sub(1).and_then(|at| parameters.get(at));
        push_literal(&mut text, value);
        text.push_str(rest);
    }
    text
}

/// A statement in a transaction of its own, with its parameters as literals.
pub fn single(statement: &str, parameters: &[Value]) -> String {
    let limit = STATEMENT.as_millis();
    let statement = with_literals(statement, parameters);
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {limit}; {statement}"
    )
}

fn push_literal(text: &mut String, value: Option<&Value>) {
    match value {
        None | Some(Value::Null) => text.push_str("NULL::text"),
        Some(Value::Int(value)) => text.push_str(&format!("({value})::bigint")),
        Some(Value::Text(value)) if is_plain(value) => push_quoted(text, value),
        Some(Value::Text(value)) => {
            text.push_str("convert_from(");
            push_digits(text, value.as_bytes());
            text.push_str(", 'UTF8')");
        }
        Some(Value::Bytes(bytes)) => match str::from_utf8(bytes) {
            // Most bodies are JSON in ASCII, and half as long as their digits.
            Ok(plain) if is_plain(plain) => {
                text.push_str("convert_to(");
                push_quoted(text, plain);
                text.push_str(", 'UTF8')");
            }
            _ => push_digits(text, bytes),
        },
    }
}

/// Whether a text is the same in every encoding: ASCII that can be printed.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// A literal whose escapes are the same whatever the server is set to.
fn push_quoted(text: &mut String, plain: &str) {
    text.push_str("E'");
    text.push_str(&plain.replace('\\', r"\\").replace('\'', "''"));
    text.push('\'');
}

fn push_digits(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push_str("decode('");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push_str("', 'hex')");
}

/// A connection of a pool. Unless it is given back, it is closed: what was dropped halfway, such as
/// a handler at its time limit, may still run in the server, and after a failover the server may
/// be the wrong one.
pub struct Borrowed<C> {
    connection: Option<C>,
    close: fn(C),
}

impl<C> Borrowed<C> {
    /// A connection, and how it is closed.
    pub fn new(connection: C, close: fn(C)) -> Self {
        Self {
            connection: Some(connection),
            close,
        }
    }

    /// The connection.
    pub fn get(&mut self) -> &mut C {
        self.connection
            .as_mut()
            .expect("only `give_back` and `drop` take it")
    }

    /// Returns it to its pool.
    pub fn give_back(mut self) {
        self.connection = None;
    }
}

impl<C> Drop for Borrowed<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            (self.close)(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_says_what_its_parameter_says() {
        let parameters = [
            Value::Text(r"it's \ a".to_owned()),
            Value::Text("ü".to_owned()),
            Value::Int(-1),
            Value::Null,
            Value::Bytes(vec![0, 255]),
            Value::Bytes(br#"{"a":"\"'"}"#.to_vec()),
        ];
        assert_eq!(
            with_literals("SELECT $1, $2, $3, $4, $5, $6, $3", &parameters),
            r#"SELECT E'it''s \\ a', convert_from(decode('c3bc', 'hex'), 'UTF8'), (-1)::bigint, "#
                .to_owned()
                + r#"NULL::text, decode('00ff', 'hex'), convert_to(E'{"a":"\\"''"}', 'UTF8'), (-1)::bigint"#
        );
    }
}
