//! What an attacker, or an unlucky client, tries: each test is named by the attempt. The
//! sizes are small enough for every run, and large enough to fail without the bounds of
//! `docs/undocumented/both-services.md#bounds`.

mod amplification;
mod dns;
mod doors;
mod mail;
mod requests;
mod sending;
