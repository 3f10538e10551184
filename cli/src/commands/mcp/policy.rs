//! What a client may do.

use super::table::{Group, Tool};
use crate::failure::{Failure, Kind};

/// The groups that are open.
pub struct Policy {
    /// `None`: all.
    pub allowed: Option<Vec<Group>>,
    /// The groups of `--tools`; empty for all.
    pub selected: Vec<Group>,
    /// The profile, if it is not the sandbox.
    pub profile: Option<String>,
}

impl Policy {
    /// Whether a tool is offered.
    pub fn check(&self, tool: &Tool) -> Result<(), Failure> {
        let group = tool.group;
        let is_allowed = group == Group::Look
            || self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&group));
        let refused = |why: String, hint: String| {
            Err(Failure::new(Kind::Refused, why).code("not_allowed").hint(hint))
        };
        if !is_allowed {
            let open = self.allowed.iter().flatten().chain([&group]).map(|group| group.name());
            let open = open.collect::<Vec<_>>().join(",");
            let why = format!("{} is not allowed here; nothing was done", tool.name);
            let hint = match &self.profile {
                None => format!("a person opens it: svc mcp --allow {open}"),
                Some(profile) => format!(
                    "a person opens it: svc mcp --allow {open}, or svc config set mcp_policy {open} --profile {profile}"
                ),
            };
            return refused(why, hint);
        }
        if !self.selected.is_empty() && !self.selected.contains(&group) {
            let why = format!("{} is not one of the tools of --tools", tool.name);
            return refused(why, format!("a person starts svc mcp with --tools {}", group.name()));
        }
        Ok(())
    }
}
