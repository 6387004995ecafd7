//! When nothing is under way any more that was asked over a path: every member has carried it out,
//! or has left, or it never began.

use super::Requests;
use crate::ids::*;
use crate::payload::Payload;
use crate::primary::{Context, PrimaryEffect};

impl<P: Payload> Requests<P> {
    /// Somebody wants to know when that is so.
    pub fn drain_path(&mut self, path: PathNumber) {
        self.draining.push(path);
    }

    /// Tells of which paths that is so.
    pub fn report_drained(&mut self, cx: &mut Context<'_, P>) {
        if self.draining.is_empty() {
            return;
        }
        let table = &self.table;
        let drained = self.draining.extract_if(.., |path| !table.came_over(*path));
        cx.effects.extend(drained.map(|path| PrimaryEffect::Drained { path }));
    }
}
