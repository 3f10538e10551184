//! `svc help`: prints the help of a command, as `--help` does, or of a topic. The topics about exit
//! codes and environment variables follow from `exit::TABLE` and `settings/table.rs`; the book is
//! made from the same functions.

use clap::Args;
use clap::error::ErrorKind;

use crate::command_spec::local;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::between_words;
use crate::output_schema::of;
use crate::settings::table::explained_variables;
use crate::usage;

/// Print the help of a command or of a topic
///
/// Topics: exit-codes, environment, formatting, output.
#[derive(Args, Debug)]
#[command(add = local(of::<String>))]
#[command(after_long_help = "\
  svc help
  svc help emails send
  svc help exit-codes")]
pub struct Help {
    /// Command such as `emails send`, or topic [default: svc itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Help {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if let [topic] = &self.command[..]
            && let Some(text) = topic_text(topic)
        {
            return context.out.document(&text, &text);
        }

        let command = self.command.iter().map(String::as_str);
        let words = ["svc"].into_iter().chain(command).chain(["--help"]);
        let mut tree = (context.tree)();
        let help = match tree.try_get_matches_from_mut(words) {
            Err(error) if error.kind() == ErrorKind::DisplayHelp => error,
            Err(error) => return Err(usage::failure(&error, &tree)),
            Ok(_) => return Err(Failure::usage("this command has no help")),
        };
        if context.out.is_for_programs() {
            return context.out.value(&help.to_string());
        }

        context.out.clap(&help)
    }
}

/// The help of a topic.
fn topic_text(topic: &str) -> Option<String> {
    Some(match topic {
        "exit-codes" => table("Exit codes", &exit_codes()),
        "environment" => table("Environment variables", &variables()),
        "formatting" => FORMATTING.to_owned(),
        "output" => OUTPUT.to_owned(),
        _ => return None,
    })
}

/// Rows of a name and its meaning, in lines of at most 80 characters. A long name has a line of its own.
fn table(title: &str, rows: &[(String, &str)]) -> String {
    const WIDTH: usize = 80;

    let longest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let indent = longest.min(24) + 4;

    let mut text = format!("{title}:\n");
    for (name, meaning) in rows {
        let mut start = format!("  {name}");
        if start.len() + 2 > indent {
            text.push_str(&start);
            text.push('\n');
            start.clear();
        }
        for line in between_words(meaning, WIDTH - indent).lines() {
            text.push_str(&format!("{start:indent$}{line}\n"));
            start.clear();
        }
    }

    text
}

/// The exit codes and their meaning.
pub fn exit_codes() -> Vec<(String, &'static str)> {
    let codes = exit::TABLE.iter();
    codes.map(|(code, why)| (code.to_string(), *why)).collect()
}

/// The environment variables and their meaning.
pub fn variables() -> Vec<(String, &'static str)> {
    explained_variables()
        .map(|(names, why)| (names.to_owned(), why))
        .collect()
}

const FORMATTING: &str = "\
--jq filters the JSON result with a jq expression, without jq being installed.
Strings are printed without quotes, so that they fit into a shell variable:

  svc --sandbox audiences list --jq '.[].id'
  id=$(svc --sandbox audiences create News --jq .id)

With -o ndjson, each line is filtered by itself. With -o csv, objects become
rows: svc contacts list News --all -o csv --jq '.[] | {email, name}'.
The fields of every command: svc schema COMMAND. The language:
https://jqlang.org/manual/
";

const OUTPUT: &str = "\
Results go to standard output; progress, notes, hints and errors to standard
error. -o selects the format of results:

  table   aligned columns; the default on a terminal
  json    one JSON document; the default elsewhere
  ndjson  one JSON document per line, as soon as it is available
  csv     a header line and one line per object

--json is -o json. --wide shows every column and whole IDs. -q leaves out notes
and hints, -v shows each request, -vv also headers and bodies without secrets.
The last line of standard error is one JSON object if the command failed and
the output is not a table. What a failure means for scripts: svc help exit-codes
";
