//! Resources: the book, the OpenAPI descriptions of the services, and the messages of the sandbox;
//! and prompts for what people ask most.

use rmcp::ErrorData;
use rmcp::model::{
    GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Resource, ResourceContents,
    ResourceTemplate, Role, object,
};
use serde_json::{Value, json};

use super::arguments::CommandLine;
use super::calls::Shared;
use super::runner::Output;
use super::table::{ACTION, Tool};

/// The chapters of the book: paths and texts.
const BOOK: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/book.rs"));

const CHAPTER: &str = "svc://book/";
const MESSAGE: &str = "svc://messages/";

/// The tool that reads messages. Where it is not offered, messages are not resources.
const MESSAGE_TOOL: &str = "sandbox_messages";

/// The OpenAPI descriptions, which the sandbox has at the paths of these addresses.
const OPENAPI: [&str; 2] = ["svc://openapi/email.json", "svc://openapi/extraction.json"];

/// A line for each prompt: its name, description, argument, the tools that it needs, and its text, in
/// which the argument replaces `{}`.
const PROMPTS: &str = include_str!("prompts.tsv");

impl Shared {
    fn message_tool(&self) -> Option<&Tool> {
        self.tools
            .iter()
            .find(|tool| tool.name == MESSAGE_TOOL && self.allows(tool))
    }

    /// The resources whose address has an ID.
    pub fn templates(&self) -> Vec<ResourceTemplate> {
        let template = ResourceTemplate::new(format!("{MESSAGE}{{id}}"), "message")
            .with_title("A message in the sandbox's mailbox")
            .with_mime_type("text/plain");
        self.message_tool().map(|_| template).into_iter().collect()
    }

    /// Reads a resource. A message is read with its tool, so that it is marked and recorded.
    pub async fn read(&self, uri: &str) -> Result<ResourceContents, ErrorData> {
        let chapter = uri.strip_prefix(CHAPTER);
        if let Some((_, text)) = BOOK.iter().find(|(path, _)| Some(*path) == chapter) {
            return Ok(ResourceContents::text(*text, uri).with_mime_type("text/markdown"));
        }
        if OPENAPI.contains(&uri) {
            self.hold_sandbox().await;
            let path = uri.trim_start_matches("svc:/");
            let get = CommandLine::of(&["api", "GET", path, "--sandbox"]);
            let Output { fields, .. } = self.runner.run(&get).await.unwrap_or_else(Output::from);
            let Some(document) = fields.get("result") else {
                return Err(ErrorData::internal_error(
                    "the sandbox did not answer",
                    Some(fields),
                ));
            };
            let text = document.to_string();
            return Ok(ResourceContents::text(text, uri).with_mime_type("application/json"));
        }
        let (Some(id), Some(tool)) = (uri.strip_prefix(MESSAGE), self.message_tool()) else {
            return Err(ErrorData::resource_not_found(
                "no resource has this address",
                None,
            ));
        };

        let read = self
            .recorded(tool, object(json!({ACTION: "get", "id": id})))
            .await;
        let text = read.content.first().and_then(|block| block.as_text());
        let text = text.map(|text| text.text.clone()).unwrap_or_default();
        let kind = read
            .structured_content
            .map(|fields| fields["error"]["kind"].clone());
        match kind.as_ref().and_then(Value::as_str) {
            None => Ok(ResourceContents::text(text, uri).with_mime_type("text/plain")),
            Some("not_found") => Err(ErrorData::resource_not_found(text, None)),
            Some(_) => Err(ErrorData::internal_error(text, None)),
        }
    }

    /// The prompts whose tools are offered.
    pub async fn prompts(&self) -> Vec<Prompt> {
        let offered = self
            .offered()
            .await
            .map(|tool| tool.name)
            .collect::<Vec<_>>();
        let is_offered = |tools: &str| tools.split(' ').all(|name| offered.contains(&name));
        let lines = prompt_lines().filter(|[.., tools, _]| is_offered(tools));
        let prompt = |[name, about, argument, ..]: [&str; 5]| {
            let argument = PromptArgument::new(argument).with_required(true);
            Prompt::new(name, Some(about), Some(vec![argument])).with_title(name.replace('_', " "))
        };

        lines.map(prompt).collect()
    }
}

/// The resources that have a fixed address.
pub fn fixed() -> Vec<Resource> {
    let chapters = BOOK.iter().map(|(path, text)| {
        let title = text
            .lines()
            .find_map(|line| line.strip_prefix("# "))
            .unwrap_or(path);
        Resource::new(format!("{CHAPTER}{path}"), *path)
            .with_title(title)
            .with_mime_type("text/markdown")
    });
    let openapi = OPENAPI.map(|uri| {
        Resource::new(uri, uri.trim_start_matches("svc://"))
            .with_title("OpenAPI description of the service")
            .with_mime_type("application/json")
    });
    chapters.chain(openapi).collect()
}

fn prompt_lines() -> impl Iterator<Item = [&'static str; 5]> {
    let lines = PROMPTS
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<_>>());
    lines.filter_map(|columns| columns.try_into().ok())
}

/// The text of a prompt. `None`: there is none with this name, or its argument is missing.
pub fn prompt(name: &str, arguments: &JsonObject) -> Option<GetPromptResult> {
    let [_, _, argument, _, text] = prompt_lines().find(|[known, ..]| *known == name)?;
    let value = arguments.get(argument)?.as_str()?;
    Some(GetPromptResult::new(vec![PromptMessage::new_text(
        Role::User,
        text.replace("{}", value),
    )]))
}
