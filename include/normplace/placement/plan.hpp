// SPDX-License-Identifier: BSD-3-Clause
//
// A formula at one place of a stack, as what is computed there in which order: choices made, scalars evaluated, sums
// and factors folded into the terms of what they lead to. So every reader of a formula sees three things only: a norm,
// a gate or the sublayer, applied to a linear combination of streams and of what was computed before. x + 0.5 *
// f(norm(x)) is
//
//     step 0: norm of 1 x         step 1: f of 1 (step 0)         result: 1 x + 0.5 (step 1)
#pragma once

#include <cstddef>
#include <vector>

#include <normplace/placement/formula.hpp>

namespace normplace {

struct Plan {
    /// A source below `streams` is that stream; from there on it is step `source - streams`.
    struct Term {
        double factor;
        std::size_t source;
    };
    using Terms = std::vector<Term>;
    struct Step {
        Node::Kind kind;    ///< norm, gated or sublayer
        std::size_t index;  ///< which norm, or which gate
        Terms input;
    };
    struct Norm {
        Label slot;
        double start;  ///< of its gain
    };
    struct Gate {
        Label name;
        double start;
        bool per_channel;
    };

    std::size_t streams = 1;     ///< that it reads
    std::vector<Norm> norms;     ///< in the order in which the formula is read
    std::vector<Gate> gates;     ///< likewise, those that the block owns first
    std::size_t own_gates = 0;   ///< the others are the layer's first block's
    std::vector<Step> steps;     ///< operands first
    std::vector<Terms> results;  ///< what the streams become
};

namespace detail {

class Planner {
public:
    Planner(const Formula& formula, const Depth& depth, std::size_t streams) : formula_(formula), depth_(depth) {
        plan_.streams = streams;
        step_of_.fill(none);
        for (std::size_t k = 0; k < formula.result_count; ++k) name(formula.results[k]);
        plan_.own_gates = plan_.gates.size();
        for (const std::size_t at : lent_) {
            index_[at] = plan_.gates.size();
            plan_.gates.push_back(gate(formula.nodes[at].gate));
        }
        for (std::size_t k = 0; k < formula.result_count; ++k)
            plan_.results.push_back(terms(formula.results[k], 1.0, {}));
    }
    Plan finish() { return std::move(plan_); }

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    std::size_t chosen(const Node& node) const { return node.condition.holds(depth_) ? node.first : node.second; }

    Plan::Gate gate(const Gate& gate) const { return {gate.name, gate.start.at(depth_), gate.per_channel}; }

    /// Norms and gates in the order of reading, outermost first.
    void name(std::size_t at) {
        if (named_[at]) return;
        named_[at] = true;
        const Node& node = formula_.nodes[at];
        switch (node.kind) {
            case Node::Kind::stream: return;
            case Node::Kind::choice: return name(chosen(node));
            case Node::Kind::norm:
                index_[at] = plan_.norms.size();
                plan_.norms.push_back({node.name, node.start});
                break;
            case Node::Kind::gated:
                if (node.gate.per_layer && !first_in_layer.holds(depth_)) {
                    lent_.push_back(at);
                    break;
                }
                index_[at] = plan_.gates.size();
                plan_.gates.push_back(gate(node.gate));
                break;
            default: break;
        }
        name(node.first);
        if (node.kind == Node::Kind::sum) name(node.second);
    }

    /// `so_far` and factor times what the node is.
    Plan::Terms terms(std::size_t at, double factor, Plan::Terms so_far) {
        const Node& node = formula_.nodes[at];
        switch (node.kind) {
            case Node::Kind::sum: return terms(node.second, factor, terms(node.first, factor, std::move(so_far)));
            case Node::Kind::scaled: return terms(node.first, factor * node.factor.at(depth_), std::move(so_far));
            case Node::Kind::choice: return terms(chosen(node), factor, std::move(so_far));
            default: break;
        }
        const std::size_t source = node.kind == Node::Kind::stream ? node.first : plan_.streams + step(at);
        for (Plan::Term& term : so_far)
            if (term.source == source) {
                term.factor += factor;
                return so_far;
            }
        so_far.push_back({factor, source});
        return so_far;
    }

    std::size_t step(std::size_t at) {
        if (step_of_[at] != none) return step_of_[at];
        Plan::Terms input = terms(formula_.nodes[at].first, 1.0, {});
        plan_.steps.push_back({formula_.nodes[at].kind, index_[at], std::move(input)});
        return step_of_[at] = plan_.steps.size() - 1;
    }

    const Formula& formula_;
    const Depth depth_;
    Plan plan_;
    std::array<bool, Formula::most_nodes> named_{};
    std::array<std::size_t, Formula::most_nodes> index_{}, step_of_{};
    std::vector<std::size_t> lent_;  // gates that another block owns
};

}  // namespace detail

/// @param streams that the formula may read
/// @throws std::invalid_argument when a scalar is not finite there
inline Plan plan(const Formula& formula, const Depth& depth, std::size_t streams) {
    return detail::Planner(formula, depth, streams).finish();
}
inline Plan plan(const Formula& formula, const Depth& depth) { return plan(formula, depth, formula.result_count); }

}  // namespace normplace
