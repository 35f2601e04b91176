//! Images: DescribeImages, and the calls with which others copy and deprecate them.

use cloud::Cloud;
use cloud::fake::FakeCloud;

use super::describe::{Select, tags_of};
use super::done;
use crate::ec2wire::answer::{Failure, Reply, invalid, page};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;

const PAGE: usize = 1000;

/// Returns images; all images of the fake are available. Without `IncludeDeprecated`, EC2 hides deprecated images of other
/// owners.
pub(super) async fn describe(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let mut select = Select::read(form);
    let states = select.take("state");
    let mut filter = select.filter("image-id", "name")?;
    filter.owners = form.texts("Owner");
    filter.ids.extend(form.texts("ImageId"));
    let mut found = cloud.images(&filter).await?;
    found.retain(|_| states.as_ref().is_none_or(|states| states.iter().any(|state| state == "available")));
    found.retain(|image| !image.deprecated || form.text("IncludeDeprecated") == "true");
    let summary = format!("{} images", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeImages", |xml| {
        xml.items("imagesSet", &rows, |xml, row| {
            xml.text("imageId", &row.id);
            xml.text("imageState", "available");
            xml.text("imageOwnerId", &row.owner);
            xml.text("architecture", &row.architecture);
            xml.text("name", &row.name);
            xml.text("creationDate", &row.created);
            xml.some("deprecationTime", row.deprecated.then_some(&row.created));
            xml.tags(&row.tags);
        });
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

/// Copies an image within the region; the copy belongs to this account.
pub(super) fn copy(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let (source, name) = (form.text("SourceImageId"), form.text("Name"));
    let tags = form.list("TagSpecification").iter().flat_map(tags_of).collect();
    let copied = cloud.account().copy_image(source, name, tags).ok_or_else(|| missing(source))?;
    let body = Xml::response("CopyImage", |xml| xml.text("imageId", &copied));
    Ok(Reply { body, summary: copied })
}

/// Deprecates an image from now on, whatever time is requested.
pub(super) fn deprecate(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let id = form.text("ImageId");
    if !cloud.account().deprecate_image(id) {
        return Err(missing(id));
    }
    Ok(done("EnableImageDeprecation", id))
}

fn missing(id: &str) -> Failure {
    invalid("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist"))
}
