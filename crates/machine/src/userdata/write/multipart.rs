//! MIME container for both Amazon Linux families: the user's parts, then Kerf's.

use super::RenderError;
use crate::mime::{self, Part};

/// Content type of a shell script.
pub(super) const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";

/// Returns the parts of the class's user data. A MIME document keeps all headers of its parts, because a body is unusable
/// without the header of its encoding. Other text becomes one part with the type that `content_type` returns.
pub(super) fn user_parts(text: &str, content_type: impl Fn(&str) -> &'static str) -> Result<Vec<Part>, RenderError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if mime::is_mime(text.as_bytes()) {
        return mime::parse(text.as_bytes()).map_err(RenderError::UserData);
    }
    Ok(vec![Part::new(content_type(text), text)])
}

pub(super) fn write(parts: &[Part]) -> Result<String, RenderError> {
    let document = mime::render(parts).map_err(RenderError::Part)?;
    Ok(String::from_utf8_lossy(&document).into_owned())
}
