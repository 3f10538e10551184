# What the checks of checks.toml are made of. The input is all that a run has seen. A check sees the
# exchange of its step: `status`, `headers`, `text`, the JSON as it was received in `raw`, and in `body`
# with plain names; `sent` is the JSON of the request.

# A name without case, separators and namespace, as those of `body` are: `signingSecret`, `SigningSecret`
# and `signing_secret` are one.
def plain: (split(":") | last // "") | ascii_downcase | gsub("[^a-z0-9]"; "");

. as $seen |

# True or false, also as a text or a number; else null.
def flag: (tostring | ascii_downcase) as $word |
    if any("true", "yes", "y", "1"; . == $word) then true
    elif any("false", "no", "n", "0"; . == $word) then false
    else null end;

def is_one_of($words): . as $it | any($words[]; . == $it);
def is_whole_number: isnumber and (tostring | test("^-?[0-9]+$"));
def is_time: (isnumber and . > 1e9)
    or (isstring and test("^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})$"));
def is_event: isstring and startswith("email.");
def is_uuid: isstring and test("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$");

# Every object in a value, the outer ones first.
def inside: [.] | recurse([.[] | .[]?]; length > 0)[] | objects;

# The outermost field with this name, of a body with plain names.
def field($name): ($name | plain) as $plain | first(inside | select(has($plain)) | .[$plain]);
def has_field($name): ($name | plain) as $plain | any(inside; has($plain));
def have($names): . as $it | all($names[]; . as $name | $it | has_field($name));
def is_text($name; $text): any(field($name); . == $text);
def has_text($name): any(field($name); isstring and . != "");
def lists($name; $text): any(field($name) | arrays[]; . == $text);

# The object with this value in a field of this name: a resource that the run has made.
def with($name; $value): first(inside | select(any(to_entries[]; (.key | plain) == $name and .value == $value)));

# The values of an object that are none themselves, each with the way to it: `consent.state`.
def leaves: [{path: [], value: .}]
    | recurse([.[] | .path as $path | .value | objects | to_entries[] | {path: ($path + [.key]), value}]; length > 0)[]
    | select(.value | isobject | not) | {name: (.path | join(".")), value};

# The outermost list, and the names that lead to it.
def list: first(
    [{path: [], value: .}]
    | recurse([.[] | .path as $path | .value | objects | to_entries[]
        | select(.key | plain | is_one_of(["links", "errors", "included", "warnings", "meta"]) | not)
        | {path: ($path + [.key]), value}]; length > 0)[]
    | select(.value | isarray) | {path, items: .value});

def total: first(field("total", "totalSize", "totalRecords", "count"));

# The value that leads to the next part of a list.
def cursor: first(inside | (.nextcursor, .nextpagetoken, .nexttoken, .cursor, .endcursor, .next)
    | strings | select(. != "" and (contains("/") | not)));
def next_link: any(field("next") | strings, (objects | .href | strings); contains("/"));
def number($names): first(field($names[])) | if isstring then select(test("^[0-9]+$")) | tonumber else numbers end;

# Whether a body says that nothing was done, whatever the status is: it has a mark of failure, or a code
# with a text, or an error, and nothing beside that.
def is_empty: is_one_of([null, "", [], {}, 0]);
def is_failing_code: tostring | test("^-?[0-9]+$") and (test("^(0+|2[0-9][0-9])$") | not);
def refuses: objects
    | any(.success, .ok, .issuccess, .succeeded; . != null and flag == false)
      or any(.result, .stat, .status; is_one_of(["error", "fail", "failure"]))
      or ((any(.code, .errcode, .ret; is_failing_code) and any(.msg, .message, .errmsg, .reason; isstring)
            or any(.error, .errors; is_empty | not))
        and (with_entries(select(.key | is_one_of(["code", "errcode", "ret", "error", "errors"]) | not))
            | has("id") or any(.[]; isstring or is_empty | not) | not));

# Of an exchange: whether it succeeded. The status of a delivery is ours.
def ok: .is_delivery or (.status >= 200 and .status < 300 and (any(.body | refuses; .) | not));
def accepted: ok and (.status | is_one_of([200, 201, 202]));
def refused: (ok | not) and (.status | is_one_of([200, 400, 409, 413, 422]));
def header($name; $text): .headers[$name] | isstring and contains($text);

# Whether a list says that there is more.
def has_more: header("link"; "next") or (.body | next_link
    or any(cursor; true)
    or any(field("hasMore", "moreDataIndicator"); flag == true)
    or ([number(["page", "currentPage"]), number(["totalPages", "lastPage"])] | length == 2 and .[0] < .[1])
    or ([number(["total", "count"]), (list | .items | length)] | length == 2 and .[0] > .[1]));

# What the run has made, in a value.
def mine($what): {
        audience: {name: "name", value: $seen.run},
        contact: {name: "email", value: "\($seen.run)-1@example.com"},
        domain: {name: "name", value: "\($seen.run).example"},
        webhook: {name: "url", value: ($seen.at["webhooks.create"].sent.url // "")},
        endpoint: {name: "url", value: ($seen.at["extraction.webhooks.create"].sent.url // "")},
    }[$what] as $it | with($it.name; $it.value);

# The result of a statement: true, false, what is wrong, or why it was not tried.
def answered: "answered \(.status)";
def not_tried: {result: "not_tried", found: .};
def success: if ok then true else answered end;
def status($status): if .status == $status then true else answered end;
# A success whose body is so.
def is(f): if ok then .body | f else answered end;
# As `is`. A response that is no success does not count: another statement is about that.
def shows(f): if ok then .body | f else answered | not_tried end;

# A list, in whatever shape, or what an empty one may be.
def is_list($name): if ok | not then answered else
    any(.raw | list; true)
    or (.body | has_field($name))
    or (.text | is_one_of(["", "null"]))
    or any(.body | inside; length == 0 or any(.[]; . == null or . == ""))
    or (.body | isobject and all(.[]; isobject or isarray | not)) end;
def items: list | .items[] | objects;
def nothing_listed: "there is nothing to try it with" | not_tried;
def items_have($names; f): shows(. as $body | if any(items; true) | not then nothing_listed else
    first($names[] as $name | select(any($body | items; [field($name) | f] != [true]))
    | "\($name) is missing, or of another type") // true end);
def object_has($outer; $names; f): if ok then . as $it
    | first($names[] as $name | select([($it.raw[$outer][$name])? | f] != [true])
    | "\($outer).\($name) is missing, or another value") // true else answered | not_tried end;
def no_secret($name): shows(if any(items; true) | not then nothing_listed else any(field($name) | strings; utf8bytelength >= 8 and (test("[*…•]") | not)) | not end);
def made($what; f): if ok then
    . as $it | [.body | mine($what)]
    | if length > 0 then .[0] | f
      elif $what == "audience" and $seen.ids["audiences.walk"] == "found" and any($it.raw | list; true) then true
      elif $it | has_more then "it may be on another page of the list" | not_tried
      else "it is not there" end
    else answered end;
def made($what): made($what; true);
def gone($what): shows(any(mine($what); true) | not);
def reveals($step; $webhook): $seen.secrets[$webhook] as $secret
    | $secret != null and ($seen.at[$step].text // "" | contains($secret));
def signed($webhook): .tags[$webhook] as $tag | .request_headers["mail-signature"]
    | if $tag == null then "the secret is not known" | not_tried
      elif . == null then "the header is missing"
      elif ascii_downcase == $tag then true
      else "it is not that of the body" end;

def flags: ["mx_verified", "spf_verified", "dkim_verified", "dmarc_verified", "verified"];
def is_consistent: [field(flags[]) | flag | booleans] | length < 5 or .[4] == all(.[:4][]; .);

# The field with the status of an email, and the status.
def state: first(.raw | inside
    | ("status", "lastevent", "state", "deliverystatus", "deliverystate", "emailstatus", "messagestatus", "currentstatus") as $name
    | first(to_entries[] | select(.key | plain == $name))
    | select(.value | isstring and test("^[A-Za-z_-]+$"))
    | {name: .key, word: .value});
def is_sent: any(state | .word | ascii_downcase; is_one_of(["sending", "sent", "delivered"]));
def results: if isarray then [.[] | objects] | length elif isobject then [.[] | results] | add // 0 else 0 end;

# The field with the status that our endpoint gave.
def test_status: first(.raw | inside | to_entries[] | select(.value | tostring == "218") | .key);

def first_email: first(inside | select(has("email")) | .email);

# The fields of a contact that say that it was unsubscribed: they changed, as `subscribed` does, or the
# other way round, as `!unsubscribed`.
def contact($step): $seen.at[$step].raw | mine("contact");
def wish: ((strings | plain) // "") as $word |
    if $word | is_one_of(["subscribed", "optedin", "optin", "granted", "given"]) then true
    elif $word | is_one_of(["unsubscribed", "notsubscribed", "optedout", "optout", "denied", "revoked", "withdrawn"]) then false
    else flag end;
# What an update of a contact has changed, but for when.
def lasting: with_entries(select(.key | plain | test("updat|modif|chang|time|version|etag|revision") | not));
def opt_outs: contact("contacts.list.updated") as $before | contact("contacts.list.opted-out") as $after
    | $before | leaves | .name as $name | .value as $old
    | [$after | leaves | select(.name == $name) | .value][0] as $new
    | select($old != $new) | ($old | wish) as $was | ($new | wish) as $is
    | if $was == true and $is != true then $name
      elif $was == false and $is == true then if $name == "unsubscribed" then $name else "!\($name)" end
      elif $name | plain == "status" then "status"
      else empty end;

def is_so(f): first((try f catch false), false);

# What a run finds out about a point: a choice, or that more than one choice, or none, explains what was seen.
def unclear($why): {result: "ambiguous", found: $why};
# What the client reads although no choice describes it. Nothing has to be set for it.
def read_anyway($why): {result: "agrees", found: "the client reads it without a choice: \($why)"};
def none_of_them(is_read): "the answer (\(.status)) is none of the known ones" as $why
    | if is_so(is_read) then read_anyway($why) else unclear($why) end;
def only(f; $why): [f] | if length == 1 then .[0] else unclear($why) end;
def at_step($step): (if isstring then {choice: .} else . end) + {step: $step};
def id_of_email: $seen.ids["emails.send"] | values;
# A number is an id only in a field that is called so.
def id_field: id_of_email as $id | first(.raw | inside | to_entries[]
    | select(.value == $id or ((.value | tostring == $id) and (.key | plain | endswith("id")))) | .key);
def id_header: id_of_email as $id | first(.headers | to_entries[] | select(.value == $id) | .key);
def in_delivery(f): .sent | (if isarray then .[0] else . end) | objects
    | [to_entries[] | select(.value | f) | .key] as $outer
    | [leaves | select(.value | f) | .name] as $inside
    | only((if $outer == [] then $inside else $outer end)[]; "no field of the body, or more than one, looks like it");
def list_items: [
        ("domains.list", "audiences.list", "webhooks.list", "audiences.list.created", "webhooks.list.created") as $step
        | $seen.at[$step] | values | select(ok) | .raw | list | {$step, path: (.path | join("."))}
    ]
    | select(length > 0) | last.step as $step | length as $lists | map(.path) | unique
    | if $lists > 1 and length == 1 and (.[0] | contains(".") | not) then .
      elif any($seen.ids["audiences.list", "audiences.create"]; .) then [read_anyway("they are in \(map(if . == "" then "the body" else . end) | join(", "))")]
      elif $lists == 1 then [unclear("only one list has items")]
      else [unclear("they are in \(join(", "))")] end
    | if .[0] | isobject then .[0]
      elif .[0] == "" then "array"
      else .[0] end
    | at_step($step);
def list_pages: . as $page | $seen.at["audiences.list.created"] | values | select(ok) | .body as $whole
    | if $seen.ids["audiences.walk"] == null then
        unclear("the list of audiences does not end, or does not say how it goes on") | at_step("audiences.list.created")
      elif any($page.body | cursor; true) then "cursor" | at_step("contacts.page")
      elif .headers.link or $page.headers.link then "link-header" | at_step("contacts.page")
      else
        if ($whole | has_field("next")) and ($page.body | next_link) then "link"
        elif $whole | has_field("hasMore") then "has-more"
        elif any($whole | has_field("totalPages", "lastPage"); .) then "page"
        else "whole" end | at_step("audiences.list.created")
      end;
def batch_item: [.body | objects | .errors | arrays][0] as $beside
    | if $beside then $beside | select(length > 0) | "split"
      else first(.body | [inside] | reverse[]
        | if .error | isobject then "error"
          elif (.success | flag) == false then "success"
          elif .errorcode | isnumber and . != 0 then "error-code"
          elif .status | isnumber and . >= 400 then "status"
          elif .status == "rejected" then "word"
          else empty end) // unclear("the refused email is told in none of these ways") end;
def domain_records: .raw
    | if any(inside; with_entries(.key |= plain) | [.mx, .spf, .dkim, .dmarc] | all(.[]; isobject)) then "kinds"
      else first(inside | to_entries[] | select(.value | isarray and length > 1 and all(.[]; isobject)) | .key)
        // unclear("the records are in no list") end
    | if . == "dns_records" then "beside" else . end;

# The name of a domain that is verified, for the sender of emails.
def verified_domain: $seen.at["domains.list"].body | first((list | .items[]) // .
    | select([field("verified") | flag] == [true]) | field("name") | strings);

# The verdict on a statement, and on a point.
def judged($step; $problem; f): $seen.at[$step]
    | if . == null then "there is nothing to try it with" | not_tried
      elif (.is_delivery | not) and (.status | is_one_of([403, 429])) then answered | not_tried
      else is_so(f)
        | if . == true then {result: "agrees"}
          elif . == false then {result: "differs", found: $problem}
          elif isstring then {result: "differs", found: .}
          else . end
      end + {step: $step};
def pointed($step; $of; $default; f): first(
        $seen.at[$step] | values | select($of == "any" or ok == ($of == "success"))
        | try f catch empty | (if isstring then {choice: .} else . end)
        # The documented name in another case is the documented one.
        | if any(.choice | strings; plain == ($default | plain)) then .choice = $default else . end
        | {step: $step} + .
    ) // ("nothing in the responses shows it" | not_tried);
