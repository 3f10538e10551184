//! Every request of the control interface, with the types of its bodies. `routes.rs` adds the
//! handlers, and `client/` calls them.

use bytes::Bytes;
use http::Method;
use svc_sdk::email::{Audience, Contact, Domain, EmailRecord};

use super::Page;
use super::clock::{self, Clock};
use super::deliveries::Delivery;
use super::dns::{Publish, Published};
use super::emails::EmailStory;
use super::events::EmailEvent;
use super::extractions::{self, Extraction};
use super::faults::{Fault, NewFault};
use super::health::Health;
use super::inbound::{InboundMessage, Received};
use super::keys::{Key, NewKey};
use super::live::LiveEvents;
use super::messages::{Message, MessageLinks, MessageSummary};
use super::metrics::Ready;
use super::organizations::{self, Organization, OrganizationSummary};
use super::requests::LoggedRequest;
use super::reset::Reset;
use super::templates::{NewTemplate, RenderedTemplate, Template, TemplateSummary, Variables};
use crate::api::email::{audiences, contacts, domains};
use crate::api::framework::Json;
use crate::api::framework::endpoint::{Endpoint, Returns};
use crate::store::emails::{self, EmailSummary};

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const PUT: Method = Method::PUT;
const DELETE: Method = Method::DELETE;

/// Defines constants. `server` and `organization` say what the request is about.
macro_rules! endpoints {
    ($($name:ident: $of:ident $method:ident $path:literal $body:ty => $response:ty;)*) => { $(
        pub(crate) const $name: Endpoint<$body, $response> = Endpoint::$of($method, $path);
    )* };
}

endpoints! {
    HEALTH: of_server GET "/_sandbox/health" () => Health;
    LEASE: of_server GET "/_sandbox/lease" () => Bytes;
    METRICS: of_server GET "/metrics" () => Bytes;
    READY: of_server GET "/readyz" () => Ready;
    CLOCK: of_server GET "/_sandbox/clock" () => Clock;
    CLOCK_CHANGE: of_server POST "/_sandbox/clock" clock::Change => Clock;
    RESET: of_organization POST "/_sandbox/reset" Reset => ();

    ORGANIZATIONS: of_server GET "/_sandbox/organizations" () => Vec<OrganizationSummary>;
    ORGANIZATIONS_CREATE: of_server POST "/_sandbox/organizations"
        organizations::New => Organization;
    KEYS: of_organization GET "/_sandbox/keys" () => Vec<Key>;
    KEYS_CREATE: of_organization POST "/_sandbox/keys" NewKey => Key;
    KEYS_DELETE: of_organization DELETE "/_sandbox/keys/{id}" () => ();

    TEMPLATES: of_organization GET "/_sandbox/templates" () => Page<TemplateSummary>;
    TEMPLATES_PUT: of_organization PUT "/_sandbox/templates/{id}" NewTemplate => Template;
    TEMPLATES_GET: of_organization GET "/_sandbox/templates/{id}" () => Template;
    TEMPLATES_DELETE: of_organization DELETE "/_sandbox/templates/{id}" () => ();
    TEMPLATES_RENDER: of_organization POST "/_sandbox/templates/{id}/render"
        Variables => RenderedTemplate;

    DOMAINS: of_organization GET "/_sandbox/domains" () => Page<Domain>;
    AUDIENCES: of_organization GET "/_sandbox/audiences" () => Page<Audience>;
    AUDIENCES_CONTACTS: of_organization GET "/_sandbox/audiences/{id}/contacts" ()
        => Page<Contact>;

    DNS_PUBLISH: of_organization POST "/_sandbox/dns/{domain}/publish" Publish => Published;
    DNS_WITHDRAW: of_organization DELETE "/_sandbox/dns/{domain}" () => ();
    DNS_WITHDRAW_RECORD: of_organization DELETE "/_sandbox/dns/{domain}/{record}" () => ();

    MESSAGES: of_organization GET "/_sandbox/messages" () => Page<MessageSummary>;
    MESSAGES_WAIT: of_organization GET "/_sandbox/messages/wait" () => Message;
    MESSAGES_GET: of_organization GET "/_sandbox/messages/{id}" () => Message;
    MESSAGES_RAW: of_organization GET "/_sandbox/messages/{id}/raw" () => Bytes;
    MESSAGES_HTML: of_organization GET "/_sandbox/messages/{id}/html" () => Bytes;
    MESSAGES_LINKS: of_organization GET "/_sandbox/messages/{id}/links" () => MessageLinks;

    MESSAGES_ATTACHMENT: of_organization GET "/_sandbox/messages/{id}/attachments/{n}" () => Bytes;

    EMAILS: of_organization GET "/_sandbox/emails" () => Page<EmailSummary>;
    EMAILS_STORY: of_organization GET "/_sandbox/emails/{id}/story" () => EmailStory;
    EMAILS_EVENT: of_organization POST "/_sandbox/emails/{id}/events" EmailEvent => EmailRecord;
    INBOUND: of_organization POST "/_sandbox/inbound" InboundMessage => Received;
    EXTRACTIONS: of_organization POST "/_sandbox/extractions" extractions::New => Extraction;

    REQUESTS: of_organization GET "/_sandbox/requests" () => Page<LoggedRequest>;
    REQUESTS_GET: of_organization GET "/_sandbox/requests/{id}" () => LoggedRequest;

    EVENTS: of_organization GET "/_sandbox/events" () => Bytes;
    EVENTS_WAIT: of_organization GET "/_sandbox/events/wait" () => LiveEvents;

    DELIVERIES: of_organization GET "/_sandbox/deliveries" () => Page<Delivery>;
    DELIVERIES_GET: of_organization GET "/_sandbox/deliveries/{id}" () => Delivery;
    DELIVERIES_REPLAY: of_organization POST "/_sandbox/deliveries/{id}/replay" () => Delivery;

    FAULTS: of_organization GET "/_sandbox/faults" () => Vec<Fault>;
    FAULTS_CREATE: of_organization POST "/_sandbox/faults" NewFault => Fault;
    FAULTS_CLEAR: of_organization DELETE "/_sandbox/faults" () => ();
    FAULTS_GET: of_organization GET "/_sandbox/faults/{id}" () => Fault;
    FAULTS_DELETE: of_organization DELETE "/_sandbox/faults/{id}" () => ();
}

// These are documented resources, which the SDK reads.
impl Returns<EmailRecord> for Json<emails::View<'static>> {}
impl Returns<Page<Domain>> for Json<Page<domains::View<'static>>> {}
impl Returns<Page<Audience>> for Json<Page<audiences::Audience>> {}
impl Returns<Page<Contact>> for Json<Page<contacts::Contact>> {}
