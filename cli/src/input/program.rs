//! The command line of another program, in a setting.

use std::path::Path;

/// Splits a command into its words, with the quotes of a shell, but nothing else of one.
pub fn words(command: &str) -> Result<Vec<String>, String> {
    match shlex::split(command) {
        Some(words) if words.iter().any(|word| !word.is_empty()) => Ok(words),
        Some(_) => Err("the command is empty".to_owned()),
        None => Err("the command has a quote that is not closed".to_owned()),
    }
}

/// The command with its program as an absolute path, if that is a path and not a name.
pub fn absolute(command: &str, cwd: &Path) -> Result<String, String> {
    let mut words = words(command)?;
    let is_path = words[0].contains(std::path::MAIN_SEPARATOR) || words[0].contains('/');
    if !is_path {
        return Ok(command.to_owned());
    }
    words[0] = cwd.join(&words[0]).display().to_string();
    let words = words.iter().map(String::as_str);
    shlex::try_join(words).map_err(|error| error.to_string())
}
