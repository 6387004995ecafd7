//! Tables with aligned columns, without rules or borders, so that they can be cut with `awk`.

use super::colour::{Painted, width};

/// How a column's cells stand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Rows under a heading.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Row>,
}

#[derive(Debug)]
enum Row {
    Cells(Vec<String>),
    /// A sentence that belongs to the row before it.
    Note(String),
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; missing cells stay empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a sentence below the newest row, indented.
    pub fn note(&mut self, text: String) {
        self.rows.push(Row::Note(text));
    }

    /// The text, each line indented by `indent` spaces and ended by a newline.
    pub fn render(&self, indent: usize) -> String {
        let widths = self.widths();
        let heading: Vec<String> = self.columns.iter().map(|(name, _)| name.dim()).collect();
        let mut text = self.line(&heading, &widths, indent);
        for row in &self.rows {
            match row {
                Row::Cells(cells) => text.push_str(&self.line(cells, &widths, indent)),
                Row::Note(note) => {
                    text.push_str(&format!("{:1$}{note}\n", "", indent + 2));
                }
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| width(name)).collect();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            for (column, cell) in widths.iter_mut().zip(cells) {
                *column = (*column).max(width(cell));
            }
        }
        widths
    }

    fn line(&self, cells: &[String], widths: &[usize], indent: usize) -> String {
        let mut line = " ".repeat(indent);
        for ((cell, wide), (_, align)) in cells.iter().zip(widths).zip(&self.columns) {
            let padding = " ".repeat(wide.saturating_sub(width(cell)));
            match align {
                Align::Left => line.extend([cell.as_str(), &padding]),
                Align::Right => line.extend([&padding, cell.as_str()]),
            }
            line.push_str("  ");
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests;
