//! `--jq`: `Filter::compile` compiles the expression before a request is sent, so that a wrong one
//! costs nothing; `Filter::run` gives each result to a callback, because there may be no end of
//! them. A filter that fails on a result is not a usage error: the command has completed, and the
//! hint says so. Errors do not quote the value. `DEFINITIONS` adds what jaq lacks, and takes away
//! `halt`.

use jaq_core::load::{Arena, File, Loader, parse};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read};
use serde_json::Value;

use crate::failure::Failure;

/// Definitions that jaq's libraries lack: `@csv` and `@tsv`. The `halt` functions, which would
/// end the process with an unrelated exit code, become errors.
const DEFINITIONS: &str = r#"
def _replaced($from; $to): split($from) | join($to);
def _field(quoted): if isstring then quoted elif . == null then "" elif . >= [] then
    error("a table cannot contain an array or an object") else tostring end;
def @csv: map(_field("\"" + _replaced("\""; "\"\"") + "\"")) | join(",");
def @tsv: map(_field(_replaced("\\"; "\\\\") | _replaced("\t"; "\\t") | _replaced("\n"; "\\n")
    | _replaced("\r"; "\\r"))) | join("\t");
def halt: error; def halt($code): error; def halt_error: error; def halt_error($code): error;
"#;

/// A compiled jq filter.
pub(crate) struct Filter {
    compiled: jaq_core::Filter<data::JustLut<Val>>,
    /// Whether it says something of the items of a list.
    has_items: bool,
}

impl Filter {
    /// Compiles a filter.
    pub(crate) fn compile(code: &str) -> Result<Self, Failure> {
        let own = parse(DEFINITIONS, |parser| parser.defs()).unwrap_or_default();
        let defs = jaq_core::defs()
            .chain(jaq_std::defs())
            .chain(jaq_json::defs())
            .chain(own);
        let funs = jaq_core::funs()
            .chain(jaq_std::funs())
            .chain(jaq_json::funs());
        let arena = Arena::default();
        let invalid = |part: &str| {
            Failure::usage(format!("--jq: invalid filter near `{}`", part.trim()))
                .hint("for the filter syntax, see https://jqlang.org/manual/")
        };

        let modules = Loader::new(defs)
            .load(&arena, File { code, path: () })
            .map_err(|errors| {
                use jaq_core::load::Error;
                let near = errors.first().map_or(code, |(_, error)| match error {
                    Error::Io(_) => code,
                    Error::Lex(lexed) => lexed.first().map_or(code, |(_, rest)| rest),
                    Error::Parse(parsed) => parsed.first().map_or(code, |(_, rest)| rest),
                });
                invalid(if near.is_empty() { code } else { near })
            })?;
        Compiler::default()
            .with_funs(funs)
            .compile(modules)
            .map(|compiled| Self {
                compiled,
                has_items: code.contains("[]") || code.contains("map("),
            })
            .map_err(|errors| {
                let near = errors
                    .first()
                    .and_then(|(_, undefined)| undefined.first())
                    .map_or(code, |(name, _)| name);
                invalid(near)
            })
    }

    /// Runs the filter and calls `each` for its results, one after the other: there may be no last one.
    ///
    /// # Errors
    ///
    /// That of `each`, or if the filter fails on this value. The request is done at this point, so
    /// this is not a usage error. The message does not quote the value, which may contain a secret.
    pub(crate) fn run(
        &self,
        input: &Value,
        mut each: impl FnMut(Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let is_list = input.is_array() && !self.has_items;
        let text = input.to_string();
        let input = read::parse_single(text.as_bytes())
            .map_err(|error| Failure::other(format!("--jq: {error}")))?;
        let context = Ctx::<data::JustLut<Val>>::new(&self.compiled.lut, Vars::new([]));
        for result in self.compiled.id.run((context, input)) {
            let value = unwrap_valr(result).map_err(|_| {
                if is_list {
                    failed("the result is a list; filter its items: '.[] | …'")
                } else {
                    failed("the filter does not match the result")
                }
            })?;
            let value = serde_json::from_str(&value.to_string())
                .map_err(|_| failed("the filter returned a value that is not JSON"))?;
            each(value)?;
        }

        Ok(())
    }
}

fn failed(what: &str) -> Failure {
    Failure::other(format!("--jq: {what}"))
        .code("filter_failed")
        .hint("the command itself has completed: check before repeating it\nfor values of varying type, use ()?: (.error.message)? // \"none\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn try_run(filter: &str, input: &Value) -> Result<Vec<Value>, Failure> {
        let mut results = Vec::new();
        let filter = Filter::compile(filter).expect("a filter");
        filter.run(input, |result| {
            results.push(result);
            Ok(())
        })?;
        Ok(results)
    }

    fn run(filter: &str, input: &Value) -> Vec<Value> {
        try_run(filter, input).expect("a result")
    }

    #[test]
    fn filters_return_any_number_of_results() {
        let input = json!({"data": [{"id": "a", "n": 1}, {"id": "b", "n": 2.5}]});
        assert_eq!(run(".data[].id", &input), [json!("a"), json!("b")]);
        assert_eq!(run("[.data[].n] | add", &input), [json!(3.5)]);
        assert_eq!(run("empty", &input), Vec::<Value>::new());
        assert_eq!(
            run("{b: 1, a: 2}", &input)[0].to_string(),
            r#"{"b":1,"a":2}"#
        );
    }

    #[test]
    fn csv_and_tsv_match_jq() {
        let input = json!([1, "a\tb\\", null, true, "say \"hi\""]);
        assert_eq!(
            run("@tsv", &input),
            [json!("1\ta\\tb\\\\\t\ttrue\tsay \"hi\"")]
        );
        let csv = "1,\"a\tb\\\",,true,\"say \"\"hi\"\"\"";
        assert_eq!(run("@csv", &input), [json!(csv)]);
        assert_eq!(run("@csv \"x: \\(.)\"", &json!([2])), [json!("x: 2")]);
        assert!(try_run("@csv", &json!([[]])).is_err());
    }

    #[test]
    fn invalid_filters_fail_to_compile() {
        for filter in [".[", "nosuch(1)", "\"open"] {
            assert!(Filter::compile(filter).is_err(), "{filter}");
        }
    }

    #[test]
    fn error_and_halt_are_errors() {
        for filter in [
            "error(\"x\")",
            "halt",
            "halt(0)",
            "halt_error",
            "halt_error(3)",
        ] {
            assert!(try_run(filter, &json!(1)).is_err(), "{filter}");
        }
    }

    /// Unlike jq, jaq does not suppress an error on the left of `//`.
    #[test]
    fn question_mark_suppresses_errors() {
        let filter = r#"(.error.message)? // "none""#;
        assert_eq!(run(filter, &json!([1])), [json!("none")]);
        assert_eq!(
            run(filter, &json!({"error": {"message": "x"}})),
            [json!("x")]
        );
    }
}
