// SPDX-License-Identifier: BSD-3-Clause
//
// Where a block keeps the values of its plan's steps: in memory of their own, unless that of the block's result or that
// of the sublayer's input is free for them. It is decided once for a block, so that Pre-LN's norm writes what the
// sublayer reads, and Post-LN's works in the result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <normplace/placement/plan.hpp>
#include <normplace/placement/readers.hpp>

namespace normplace::detail {

enum class StepPlace { own, result, sublayer_input };

/// Whether a sum is one source as it is: then it lies somewhere already.
inline bool is_plain(const Plan::Terms& terms) { return terms.size() == 1 && terms[0].factor == 1.0; }

/// The step that is the sublayer, or how many steps there are.
inline std::size_t sublayer_step(const Plan& plan) {
    const auto found = std::find_if(plan.steps.begin(), plan.steps.end(),
                                    [](const Plan::Step& step) { return step.kind == Node::Kind::sublayer; });
    return static_cast<std::size_t>(found - plan.steps.begin());
}

/// For each step. The result's memory is one step's after another's: each is its `occupant` until the last that reads
/// it, which may already write there where it works entry by entry or row by row.
/// @param norms_in_place whether norms may write where a term of their argument lies
inline std::vector<StepPlace> step_places(const Plan& plan, bool norms_in_place) {
    const std::size_t steps = plan.steps.size(), sublayer = sublayer_step(plan);
    std::vector<StepPlace> places(steps, StepPlace::own);
    const bool one_result = plan.streams == 1 && plan.results.size() == 1;
    bool input_is_free = true;
    std::size_t occupied_until = 0;  // by the step that reads the occupant last; what a result reads stays to the end
    for (std::size_t k = 0; k < steps; ++k) {
        const Readers read_by = readers(plan, k);
        if (input_is_free && k < sublayer && sublayer < steps) {
            const Plan::Terms& input = plan.steps[sublayer].input;
            const bool alone = read_by.steps + read_by.results == 1;
            const bool read = std::any_of(input.begin(), input.end(),
                                          [&](const Plan::Term& term) { return term.source == plan.streams + k; });
            if (read && (alone || is_plain(input))) {
                places[k] = StepPlace::sublayer_input;
                input_is_free = false;
                continue;
            }
        }
        if (!one_result) continue;
        const Node::Kind kind = plan.steps[k].kind;
        const bool in_place = kind == Node::Kind::gated || (kind == Node::Kind::norm && norms_in_place);
        if (occupied_until < k || k == 0 || (occupied_until == k && in_place)) {
            places[k] = StepPlace::result;
            occupied_until = read_by.results > 0 ? steps : read_by.last;
        }
    }
    return places;
}

}  // namespace normplace::detail
