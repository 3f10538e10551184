//! The text of `TEXT|@FILE|-` values.

use super::Context;
use crate::failure::Failure;
use crate::input::file_name;

impl Context {
    /// The text of an option's `TEXT|@FILE|-` value. A file name without `@` is refused.
    pub fn text(&self, option: &str, value: &str) -> Result<String, Failure> {
        file_name::refuse(Some(&self.command.path), option, value, &self.settings.env.cwd)?;
        self.inputs.text(&self.out, option, value)
    }

    /// As [`text`](Self::text), for an option that takes JSON.
    pub fn json_text(&self, option: &str, value: &str) -> Result<String, Failure> {
        file_name::refuse(None, option, value, &self.settings.env.cwd)?;
        self.inputs.text(&self.out, option, value)
    }
}
