//! Limits of answers that consist of pages. A service, or a proxy before it, that returns pages without end must not fill the memory
//! of the controller.

use super::{CloudError, ErrorKind};

/// Part of an answer that may still follow. The limits are about ten times the answers of the largest region.
#[derive(Clone, Debug)]
pub struct AnswerLimit {
    call: &'static str,
    pages: usize,
    rows: usize,
    bytes: usize,
}

impl AnswerLimit {
    /// Returns the limit of the spot price history: two products of about 1,200 types in six zones.
    #[must_use]
    pub const fn spot_prices() -> Self {
        Self { call: "DescribeSpotPriceHistory", pages: 2000, rows: 200_000, bytes: 16 << 20 }
    }

    /// Returns the limit of the price list: about 1,200 types, each a JSON text of 6 kB.
    #[must_use]
    pub const fn on_demand_prices() -> Self {
        Self { call: "GetProducts", pages: 2000, rows: 20_000, bytes: 96 << 20 }
    }

    /// Counts a page with rows of these sizes in bytes.
    ///
    /// # Errors
    /// Returns an error that names the call if the answer is longer than its limit.
    pub fn add_page(&mut self, rows: impl IntoIterator<Item = usize>) -> Result<(), CloudError> {
        self.pages = self.pages.checked_sub(1).ok_or_else(|| self.exceeded("pages"))?;
        for bytes in rows {
            self.rows = self.rows.checked_sub(1).ok_or_else(|| self.exceeded("rows"))?;
            self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| self.exceeded("bytes"))?;
        }
        Ok(())
    }

    fn exceeded(&self, what: &str) -> CloudError {
        let message = format!("the answer has too many {what}, ignored it; check the endpoint and proxies of the call");
        CloudError { call: self.call, kind: ErrorKind::Server, code: String::new(), message }
    }
}

#[cfg(test)]
mod tests {
    use super::AnswerLimit;

    /// Rows: pages, rows of each page, bytes of each row, and the exceeded part.
    #[test]
    fn add_page_refuses_answers_beyond_their_limit() {
        let rows = [
            (20, 1000, 40, None),
            (200, 1000, 40, None),
            (201, 1000, 40, Some("too many rows")),
            (2000, 0, 0, None),
            (2001, 0, 0, Some("too many pages")),
            (2, 1, 16 << 20, Some("too many bytes")),
        ];
        for (pages, count, bytes, exceeded) in rows {
            let mut limit = AnswerLimit::spot_prices();
            let result = (0..pages).try_for_each(|_| limit.add_page((0..count).map(|_| bytes)));
            let error = result.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(error.is_empty(), exceeded.is_none(), "{pages} {count} {bytes}: {error}");
            let parts = exceeded.into_iter().chain(exceeded.map(|_| "DescribeSpotPriceHistory failed"));
            assert!(parts.into_iter().all(|part| error.contains(part)), "{error}");
        }
        let mut limit = AnswerLimit::on_demand_prices();
        assert!(limit.add_page([6000; 1200]).is_ok(), "the list of a region");
        let error = limit.add_page([96 << 20]).unwrap_err();
        assert_eq!(error.call, "GetProducts");
    }
}
