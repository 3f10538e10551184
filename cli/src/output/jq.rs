//! `--jq`: a filter over the JSON, compiled before anything is sent.

use jaq_core::load::{Arena, File, Loader, parse};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read};
use serde_json::Value;

use crate::failure::Failure;

/// The two formats of jq's manual that jaq leaves to its own program; and what
/// would end this one in the middle, with an exit code that means something else.
const OWN: &str = r#"
def _replaced($from; $to): split($from) | join($to);
def _field(quoted): if isstring then quoted elif . == null then "" elif . >= [] then
    error("a table holds no array and no object") else tostring end;
def @csv: map(_field("\"" + _replaced("\""; "\"\"") + "\"")) | join(",");
def @tsv: map(_field(_replaced("\\"; "\\\\") | _replaced("\t"; "\\t") | _replaced("\n"; "\\n")
    | _replaced("\r"; "\\r"))) | join("\t");
def halt: error; def halt($code): error; def halt_error: error; def halt_error($code): error;
"#;

/// A compiled jq filter.
pub(crate) struct Filter(jaq_core::Filter<data::JustLut<Val>>);

impl Filter {
    /// Compiles the filter, so that a mistake in it shows before a request is made.
    pub(crate) fn compile(code: &str) -> Result<Self, Failure> {
        let own = parse(OWN, |parser| parser.defs()).unwrap_or_default();
        let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(own);
        let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let arena = Arena::default();
        let unusable = |part: &str| {
            Failure::usage(format!("the filter of --jq cannot be read near `{}`", part.trim()))
                .hint("filters are those of jq: https://jqlang.org/manual/")
        };
        let modules =
            Loader::new(defs).load(&arena, File { code, path: () }).map_err(|errors| {
                use jaq_core::load::Error;
                let near = errors.first().map_or(code, |(_, error)| match error {
                    Error::Io(_) => code,
                    Error::Lex(lexed) => lexed.first().map_or(code, |(_, rest)| rest),
                    Error::Parse(parsed) => parsed.first().map_or(code, |(_, rest)| rest),
                });
                unusable(if near.is_empty() { code } else { near })
            })?;
        Compiler::default().with_funs(funs).compile(modules).map(Self).map_err(|errors| {
            let near = errors
                .first()
                .and_then(|(_, undefined)| undefined.first())
                .map_or(code, |(name, _)| name);
            unusable(near)
        })
    }

    /// Everything that the filter makes of the value.
    ///
    /// By now the request is done, so that a filter that does not fit the answer is
    /// no refused input. What it met there is the answer's and stays out of the error.
    pub(crate) fn run(&self, input: &Value) -> Result<Vec<Value>, Failure> {
        let text = input.to_string();
        let input = read::parse_single(text.as_bytes())
            .map_err(|error| Failure::other(format!("--jq: {error}")))?;
        let context = Ctx::<data::JustLut<Val>>::new(&self.0.lut, Vars::new([]));
        self.0
            .id
            .run((context, input))
            .map(|result| {
                let value =
                    unwrap_valr(result).map_err(|_| unfit("the filter does not fit the answer"))?;
                serde_json::from_str(&value.to_string())
                    .map_err(|_| unfit("the filter made something that is not JSON"))
            })
            .collect()
    }
}

fn unfit(what: &str) -> Failure {
    Failure::other(format!("--jq: {what}"))
        .code("filter_failed")
        .hint("what the command does is done: look before you repeat it\nwhere something may be of another type, write ()? around it: (.error.message)? // \"none\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(filter: &str, input: &Value) -> Vec<Value> {
        Filter::compile(filter).expect("a filter").run(input).expect("a result")
    }

    #[test]
    fn filters_make_none_one_or_many() {
        let input = json!({"data": [{"id": "a", "n": 1}, {"id": "b", "n": 2.5}]});
        assert_eq!(run(".data[].id", &input), [json!("a"), json!("b")]);
        assert_eq!(run("[.data[].n] | add", &input), [json!(3.5)]);
        assert_eq!(run("empty", &input), Vec::<Value>::new());
        assert_eq!(run("{b: 1, a: 2}", &input)[0].to_string(), r#"{"b":1,"a":2}"#);
    }

    #[test]
    fn tables_are_made_as_jq_makes_them() {
        let input = json!([1, "a\tb\\", null, true, "say \"hi\""]);
        assert_eq!(run("@tsv", &input), [json!("1\ta\\tb\\\\\t\ttrue\tsay \"hi\"")]);
        let csv = "1,\"a\tb\\\",,true,\"say \"\"hi\"\"\"";
        assert_eq!(run("@csv", &input), [json!(csv)]);
        assert_eq!(run("@csv \"x: \\(.)\"", &json!([2])), [json!("x: 2")]);
        assert!(Filter::compile("@csv").expect("a filter").run(&json!([[]])).is_err());
    }

    #[test]
    fn mistakes_show_before_anything_runs() {
        for filter in [".[", "nosuch(1)", "\"open"] {
            assert!(Filter::compile(filter).is_err(), "{filter}");
        }
    }

    #[test]
    fn errors_of_the_filter_are_errors_and_nothing_ends_the_program() {
        for filter in ["error(\"x\")", "halt", "halt(0)", "halt_error", "halt_error(3)"] {
            assert!(Filter::compile(filter).expect("a filter").run(&json!(1)).is_err(), "{filter}");
        }
    }

    /// Unlike jq, jaq takes an error left of `//` for an error.
    #[test]
    fn what_does_not_fit_is_passed_over_where_the_filter_says_so() {
        let filter = r#"(.error.message)? // "none""#;
        assert_eq!(run(filter, &json!([1])), [json!("none")]);
        assert_eq!(run(filter, &json!({"error": {"message": "x"}})), [json!("x")]);
    }
}
