//! Configuring a namespace.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::{Command, Context};
use crate::event::{EventKind, NewEvent};
use crate::limit::check_named;
use crate::model::{Check, Defaults, Error, Namespace, Result, default_name};
use crate::store::{Read, Tx};

/// Sets what later submissions into a namespace inherit; creates it if need be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutNamespace {
    /// Which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// What submissions inherit; replaces what was set before.
    #[serde(default)]
    pub defaults: Defaults,
}

impl Command for PutNamespace {
    const NAME: &'static str = "put_namespace";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        self.defaults.check(&mut check);
        check.finish()?;
        let known = tx.namespace(&self.namespace)?;
        check_named(tx, known.as_deref(), &self.defaults.policy, "defaults.policy.")?;
        let namespace = tx.put_namespace(&self.namespace, &self.defaults)?;
        tx.add_event(&NewEvent::new(EventKind::NamespacePut, cx.now, namespace.id))
    }
}

/// The namespace of that name, made by its use.
pub(crate) fn used(tx: &mut dyn Tx, name: &str) -> Result<Arc<Namespace>> {
    match tx.namespace(name)? {
        Some(namespace) => Ok(namespace),
        None => tx.put_namespace(name, &Defaults::default()),
    }
}

/// The namespace that must exist for something in it to be there.
pub(crate) fn namespace_of(
    read: &mut dyn Read,
    namespace: &str,
    noun: &str,
    name: &str,
) -> Result<Arc<Namespace>> {
    read.namespace(namespace)?
        .ok_or_else(|| Error::not_found(noun, format!("`{name}` in namespace `{namespace}`")))
}
