//! Completion for bash, with descriptions in lists of candidates.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap_complete::engine::{self, CompletionCandidate};

use crate::settings::Env;

/// The completion script. It works with bash 3.2, the version of macOS.
pub(super) const SCRIPT: &str = r#"_svc() {
    # The words as typed: bash also splits them at = and :.
    local typed=${COMP_LINE:0:COMP_POINT} words=() piece= rest prefix line i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${typed#"${typed%%[![:space:]]*}"}
        piece=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && piece=$rest
        if ((i > 0)) && [[ $rest == "$typed" ]]; then
            words[${#words[@]} - 1]+=$piece
        else
            words+=("$piece")
        fi
        typed=${rest#"$piece"}
    done
    # bash replaces only the part after the last split.
    [[ $piece == [=:] ]] && piece=
    prefix=${words[${#words[@]} - 1]%"$piece"}
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line#"$prefix"}")
    done < <(SVC_COMPLETE=bash SVC_COMPLETE_TYPE=$COMP_TYPE SVC_COMPLETE_COLUMNS=${COLUMNS:-80} \
        svc -- "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
if [[ ${BASH_VERSINFO[0]} -gt 4 || ${BASH_VERSINFO[0]} -eq 4 && ${BASH_VERSINFO[1]} -ge 4 ]]; then
    complete -o nosort -F _svc svc
else
    complete -F _svc svc
fi
"#;

/// The values of `COMP_TYPE` that insert candidates unchanged: menu completion and insert-all.
const INSERTING: [&str; 2] = ["37", "42"];

/// One candidate per line. Descriptions are added only when bash lists several candidates instead of
/// inserting one.
pub(super) fn complete(
    command: &mut Command,
    words: Vec<OsString>,
    env: &Env,
    here: Option<&Path>,
) -> std::io::Result<String> {
    let last = words.len() - 1;
    let nothing_typed = words[last].is_empty();
    let mut candidates = engine::complete(command, words, last, here)?;
    let is_option = |c: &CompletionCandidate| c.get_value().as_encoded_bytes().starts_with(b"-");
    // Options are offered only after a dash, so that they do not hide the common prefix of ids.
    if nothing_typed && !candidates.iter().all(is_option) {
        candidates.retain(|candidate| !is_option(candidate));
    }
    let inserts = env.get("SVC_COMPLETE_TYPE").is_some_and(|kind| INSERTING.contains(&kind));
    let columns = env.get("SVC_COMPLETE_COLUMNS").and_then(|columns| columns.parse().ok());
    Ok(lines(&candidates, !inserts && candidates.len() > 1, columns.unwrap_or(80)))
}

fn lines(candidates: &[CompletionCandidate], described: bool, columns: usize) -> String {
    let values = candidates.iter().map(|c| escaped(&c.get_value().to_string_lossy()));
    let values = values.collect::<Vec<_>>();
    let widest = values.iter().map(|value| value.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (value, candidate) in values.iter().zip(candidates) {
        text.push_str(value);
        let about = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let about = about.lines().next().unwrap_or_default();
        // A margin of 2, because some terminals wrap at the last column.
        let available = columns.saturating_sub(widest + "  ()".len() + 2);
        if described && !about.is_empty() && available >= 10 {
            let cut = match about.char_indices().nth(available) {
                Some(_) => about.chars().take(available - 1).chain(['…']).collect(),
                None => about.to_owned(),
            };
            let gap = " ".repeat(widest - value.chars().count());
            text.push_str(&format!("{gap}  ({cut})"));
        }
        text.push('\n');
    }
    text
}

/// Escapes characters of file names that bash would interpret.
fn escaped(value: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@,+%~{}".contains(c);
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        if !plain(character) {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_aligned_and_cut() {
        let candidate = |value: &str, about: &str| {
            CompletionCandidate::new(value).help(Some(about.to_owned().into()))
        };
        let some = [candidate("aud_1", "News"), candidate("aud_23", "A long name, too long")];
        assert_eq!(lines(&some, true, 80), "aud_1   (News)\naud_23  (A long name, too long)\n");
        assert_eq!(lines(&some, true, 24), "aud_1   (News)\naud_23  (A long name…)\n");
        assert_eq!(lines(&some, true, 16), "aud_1\naud_23\n");
        assert_eq!(lines(&some, false, 80), "aud_1\naud_23\n");
    }

    #[test]
    fn escapes_file_names() {
        assert_eq!(escaped("q3 report's.pdf"), "q3\\ report\\'s.pdf");
    }
}
