//! Which modules of a crate a source file imports from, for the rules of `structure.rs`. The source is
//! read by `syn`.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, MetaList, UseTree, VisRestricted, Visibility};

/// The modules of a crate, and what its root exports.
pub(crate) struct Library {
    /// By their paths from the root, which is not among them: `a`, `a::b`.
    pub(crate) modules: BTreeSet<String>,
    pub(crate) exports: BTreeMap<String, String>,
}

impl Library {
    /// The modules that a module names in its paths, except itself.
    pub(crate) fn imports(&self, module: &str, source: &str) -> BTreeSet<String> {
        let mut imports = BTreeSet::new();
        for path in paths(module, source) {
            if let Some(imported) = self.module_of(&path)
                && imported != module
            {
                imports.insert(imported);
            }
        }
        imports
    }

    /// The module that a path leads to. None if the path is in another crate.
    fn module_of(&self, path: &str) -> Option<String> {
        let first = path.split("::").next().unwrap_or_default();
        let exported = self.exports.get(path);
        let mut name = match exported {
            Some(exported) if !self.modules.contains(first) => exported,
            _ => path,
        };

        while !self.modules.contains(name) {
            name = name.rsplit_once("::")?.0;
        }
        Some(name.to_owned())
    }
}

/// The names that the root of a crate exports, each with its path: `crate::command` may be that of
/// `app`.
pub(crate) fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for item in syn::parse_file(lib).expect("Rust").items {
        if let Item::Use(item) = item
            && matches!(item.vis, Visibility::Public(_))
        {
            let mut leaves = Vec::new();
            collect_leaves("", &item.tree, &mut leaves);
            exports.extend(leaves.into_iter().map(|leaf| (leaf.name, leaf.path)));
        }
    }
    exports
}

/// All paths in a module, without its tests, that may start in this crate; each from the root.
fn paths(module: &str, source: &str) -> Vec<String> {
    let file = syn::parse_file(source).expect("Rust");
    let mut paths = Paths {
        module,
        found: Vec::new(),
    };
    paths.visit_file(&file);
    paths.found
}

struct Paths<'a> {
    module: &'a str,
    found: Vec<String>,
}

impl Paths<'_> {
    /// Takes a path from the root of the crate. A path that starts with no keyword is taken as one to a
    /// child: if there is none, it is one to another crate, and leads to no module.
    fn add(&mut self, path: &str) {
        if let Some(path) = path.strip_prefix("crate::") {
            self.found.push(path.to_owned());
            return;
        }

        let mut base: Vec<&str> = self.module.split("::").collect();
        let mut rest = path;
        while let Some(above) = rest.strip_prefix("super::") {
            base.pop();
            rest = above;
        }

        base.push(rest.trim_start_matches("self::"));
        self.found.push(base.join("::"));
    }

    /// `syn` does not know the grammar of a macro: its paths are words with colons.
    fn add_words(&mut self, tokens: &str) {
        let is_of_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let tokens = tokens.replace(" :: ", "::");
        for word in tokens.split(|letter| !is_of_path(letter)) {
            if word.trim_matches(':').contains("::") {
                self.add(word);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut leaves = Vec::new();
        collect_leaves("", &item.tree, &mut leaves);
        for leaf in leaves {
            self.add(&leaf.path);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        let names: Vec<String> = segments.map(|part| part.ident.to_string()).collect();
        if names.len() > 1 {
            self.add(&names.join("::"));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.add_words(&item.tokens.to_string());
    }

    fn visit_meta_list(&mut self, list: &'ast MetaList) {
        self.add_words(&list.tokens.to_string());
    }

    /// The module in `pub(in …)` is no import.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}

fn is_test(attribute: &Attribute) -> bool {
    let condition = attribute.meta.require_list();
    condition.is_ok_and(|list| list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}

/// One name that a `use` brings in.
struct Leaf {
    name: String,
    path: String,
}

fn collect_leaves(prefix: &str, tree: &UseTree, leaves: &mut Vec<Leaf>) {
    match tree {
        UseTree::Path(path) => {
            collect_leaves(&format!("{prefix}{}::", path.ident), &path.tree, leaves);
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                collect_leaves(prefix, tree, leaves);
            }
        }
        UseTree::Name(name) => leaves.push(leaf(prefix, &name.ident, &name.ident)),
        UseTree::Rename(rename) => leaves.push(leaf(prefix, &rename.ident, &rename.rename)),
        UseTree::Glob(_) => leaves.push(Leaf {
            name: "*".to_owned(),
            path: prefix.trim_end_matches("::").to_owned(),
        }),
    }
}

fn leaf(prefix: &str, ident: &syn::Ident, name: &syn::Ident) -> Leaf {
    let path = format!("{prefix}{ident}");
    let path = path.strip_suffix("::self").unwrap_or(&path);
    Leaf {
        name: name.to_string(),
        path: path.to_owned(),
    }
}

#[test]
fn imports_are_found() {
    let source = "//! use crate::d::X;\nmod e;\nuse super::c::{self, Y};\nuse std::io;\n\
                  use crate::{d::{Z, W as V}, a};\n\
                  pub(in crate::f) fn f() { crate::d::g(); super::c::h() }\n\
                  fn g() { write!(f, \"{}\", super::g::text()) }\n\
                  #[serde(with = \"crate::h::seconds\")] struct S;\n\
                  #[cfg(test)]\nmod tests { use crate::e; }";
    let names = ["a", "a::b", "a::c", "a::g", "d", "e", "f", "h"];
    let library = Library {
        modules: names.map(str::to_owned).into(),
        exports: exports("mod a;\npub use a::c::{X, Y};\npub use d::make as build;\n"),
    };
    let imported = |source: &str| library.imports("a::b", source);

    assert_eq!(
        imported(source),
        ["a", "a::c", "a::g", "d", "h"].map(str::to_owned).into()
    );
    assert_eq!(
        imported("use crate::X;\nfn f() { crate::build() }"),
        ["a::c", "d"].map(str::to_owned).into()
    );
    assert_eq!(
        imported("use b::B;\nuse c;\nfn f() { \"use crate::e;\" }"),
        BTreeSet::new()
    );
}
