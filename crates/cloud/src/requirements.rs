//! Conversion of requirements of the API into those of the planner.

use planner::Requirements;

/// Converts requirements into those of the planner; deprecated keys become the current ones.
#[must_use]
pub fn requirements(list: &[api::Requirement]) -> Requirements {
    let mut all = Requirements::default();
    for one in list {
        all.add(&requirement(one));
    }
    all
}

fn requirement(one: &api::Requirement) -> planner::Requirement {
    planner::Requirement {
        key: api::label::canonical(&one.key).to_owned(),
        operator: match one.operator {
            api::Operator::In => planner::Operator::In,
            api::Operator::NotIn => planner::Operator::NotIn,
            api::Operator::Exists => planner::Operator::Exists,
            api::Operator::DoesNotExist => planner::Operator::DoesNotExist,
            api::Operator::Gt => planner::Operator::Gt,
            api::Operator::Lt => planner::Operator::Lt,
            api::Operator::Gte => planner::Operator::Gte,
            api::Operator::Lte => planner::Operator::Lte,
        },
        values: one.values.clone(),
        min_values: one.min_values.and_then(|count| u32::try_from(count).ok()),
    }
}
