// SPDX-License-Identifier: BSD-3-Clause
//
// Follows a placement's plan in moments: forward, from the covariances of the streams to those of the block's results;
// backward, from those of the gradient at the results to those at the streams. One of the readers of the formula
// (placement/plan.hpp).
//
// Inside one block every expression is, token by token, a x + b F, with F the sublayer's output, independent of x (and
// a_1 x_1 + a_2 x_2 + ... where there are several streams): a stream is (1, 0), `f(...)` is (0, 1), a sum adds, a
// factor multiplies, and a norm divides by the root of the second moment a^2 K_ii + b^2 F_ii + epsilon. So covariances
// are a_i a_j K_ij + b_i b_j F_ij, and x + norm(x) is no special case. A gate is the factor that it starts with.
// Backward, the gradient at an expression is the results' times factors, plus, where f reads it, that of f's input
// times factors. f's weights are independent of everything behind it, so the two are uncorrelated.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <normplace/analysis/block_expressions.hpp>
#include <normplace/analysis/norm_moments.hpp>
#include <normplace/analysis/passed_norm.hpp>
#include <normplace/placement/plan.hpp>
#include <normplace/placement/readers.hpp>

namespace normplace {

/// One residual block: the plan of its formula around one sublayer.
class BlockMoments {
public:
    /// plan, layout, norm and sublayer are kept by reference.
    BlockMoments(const Plan& plan, const TokenLayout& layout, double width, const NormMoments& norm,
                 SublayerMoments& sublayer)
        : layout_(layout), width_(width), norm_(norm), expressions_(layout, width), gradients_(layout) {
        become(plan, sublayer);
    }
    /// Another block of the same stack, in the same memory.
    void become(const Plan& plan, SublayerMoments& sublayer) {
        plan_ = &plan;
        sublayer_ = &sublayer;
        norms.assign(plan.norms.size(), {});
        gates.assign(plan.gates.size(), 0.0);
    }

    /// Covariances of the block's results; `fluctuations`, of the streams, become those of the results.
    StreamKernels forward(const StreamKernels& streams, StreamFluctuations& fluctuations) {
        prepare(streams, fluctuations);
        const std::size_t count = results_.size();
        StreamKernels output(count);
        StreamFluctuations after(count);
        for (std::size_t r = 0; r < count; ++r) {
            for (std::size_t q = 0; q < count; ++q)
                output(r, q) =
                    q == r ? expressions_.covariances(results_[r]) : expressions_.between(results_[r], results_[q]);
            after[r] = expressions_.fluctuation(results_[r], *sublayer_);
        }
        fluctuations = std::move(after);
        return output;
    }
    /// What backward needs of forward, without the output.
    void prepare(const StreamKernels& streams, const StreamFluctuations& fluctuations) {
        expressions_.enter(streams, fluctuations, elementwise_norms());
        values_.clear();
        for (std::size_t s = 0; s < plan_->streams; ++s) values_.push_back(expressions_.stream(s));
        gated_.resize(plan_->gates.size());
        passed_.resize(plan_->norms.size());
        for (std::size_t k = 0; k < plan_->steps.size(); ++k) {
            const Plan::Step& step = plan_->steps[k];
            BlockExpression e = sum(step.input);
            if (step.kind == Node::Kind::sublayer) {
                e = through_sublayer(k, e);
            } else if (step.kind == Node::Kind::gated) {
                gated_[step.index] = e;
                e.scale(plan_->gates[step.index].start);
            } else {
                passed_[step.index].forward(norm_, step.index, plan_->norms[step.index].start, expressions_, e);
            }
            values_.push_back(std::move(e));
        }
        results_.clear();
        for (const Plan::Terms& result : plan_->results) results_.push_back(sum(result));
    }

    /// Covariances of the gradient at the streams, from those at the block's results. Needs forward's state.
    StreamKernels backward(const StreamKernels& gradient) {
        const std::size_t streams = plan_->streams;
        gradients_.together = gradient;
        gradients_.apart.assign(1 + elementwise_norms(), {});
        paths_.assign(streams + plan_->steps.size(), TokenCombination(gradients_.size()));
        for (std::size_t r = 0; r < plan_->results.size(); ++r)
            for (const Plan::Term& term : plan_->results[r]) paths_[term.source].add(term.factor, gradients_.only(r));
        for (std::size_t k = plan_->steps.size(); k-- > 0;) {
            const Plan::Step& step = plan_->steps[k];
            TokenCombination& path = paths_[streams + k];  // complete: only later steps read this one
            if (step.kind == Node::Kind::sublayer) {
                gradients_.apart[0] = sublayer_->backward(gradients_.between(path, path));
                path = gradients_.only(gradient.streams());
            } else if (step.kind == Node::Kind::gated) {
                gates[step.index] = width_ * layout_.inner(gradients_.between(path, path), seen_by_gate(k));
                path.scale(plan_->gates[step.index].start);
            } else {
                norms[step.index] = passed_[step.index].backward(norm_, expressions_, gradients_, path);
            }
            for (const Plan::Term& term : step.input) paths_[term.source].add(term.factor, path);
        }
        StreamKernels result(streams);
        for (std::size_t s = 0; s < streams; ++s)
            for (std::size_t t = 0; t < streams; ++t) result(s, t) = gradients_.between(paths_[s], paths_[t]);
        return result;
    }

    /// Covariances of the first result with the first stream; of a norm's value; and of that result with it.
    TokenKernel result_with_stream() const { return expressions_.between(results_[0], values_[0]); }
    TokenKernel norm_value(std::size_t index) const { return expressions_.covariances(passed_[index].value()); }
    TokenKernel result_with_norm(std::size_t index) const {
        return expressions_.between(results_[0], passed_[index].value());
    }

    /// E f(x)^2 per entry, averaged over tokens. Needs forward's state.
    double branch_square() const { return expressions_.branch_square(); }

    /// How many of the gates are the block's own.
    std::size_t own_gates() const { return plan_->own_gates; }
    /// Sums up for the layer's first block what the others' backward found for the gates that it lends them.
    void lend_gates(std::vector<std::pair<Label, double>>& found) {
        for (std::size_t g = 0; g < gates.size(); ++g) {
            if (g >= plan_->own_gates) {
                found.emplace_back(plan_->gates[g].name, gates[g]);
                continue;
            }
            for (const auto& [name, square] : found)
                if (name == plan_->gates[g].name) gates[g] += square;
        }
    }

    /// In the order of the plan's norms and gates; backward fills them. A gate's is E||dLoss/d gate||^2.
    std::vector<NormSquares> norms;
    std::vector<double> gates;

private:
    std::size_t elementwise_norms() const { return norm_.is_elementwise() ? plan_->norms.size() : 0; }
    BlockExpression sum(const Plan::Terms& terms) const {
        BlockExpression e = values_[terms[0].source];
        e.scale(terms[0].factor);
        for (std::size_t k = 1; k < terms.size(); ++k) e.add(terms[k].factor, values_[terms[k].source]);
        return e;
    }

    BlockExpression through_sublayer(std::size_t step, const BlockExpression& input) {
        const Readers read_by = readers(*plan_, step);
        sublayer_->before_norm = read_by.only_one_step() && norm_.divides_by_size() &&
                                 plan_->steps[read_by.first].kind == Node::Kind::norm &&
                                 plan_->steps[read_by.first].input.size() == 1;
        const Fluctuation& entering = expressions_.enter_sublayer(input);
        TokenKernel output = sublayer_->forward(expressions_.covariances(input), entering);
        return expressions_.branch(std::move(output), sublayer_->norm_variance());
    }
    /// Covariances of what a gate multiplies, as far as its gradient sees it. Those of one number that leads to a norm
    /// are without what points along the norm's argument, since the Jacobian takes that away; the gradient of a number
    /// on a stream that goes on is not independent of the stream, and has no theory.
    TokenKernel seen_by_gate(std::size_t step) const {
        const std::size_t gate = plan_->steps[step].index;
        const BlockExpression& multiplied = gated_[gate];
        TokenKernel seen = expressions_.covariances(multiplied);
        if (plan_->gates[gate].per_channel) return seen;
        const Readers read_by = readers(*plan_, step);
        if (read_by.results > 0 && expressions_.has_stream(multiplied))
            return TokenKernel(seen.size(), std::numeric_limits<double>::quiet_NaN());
        if (read_by.results > 0 || read_by.steps == 0 || !norm_.divides_by_size()) return seen;
        const Plan::Step& reader = plan_->steps[read_by.first];
        if (reader.kind != Node::Kind::norm) return seen;
        const BlockExpression& normalised = passed_[reader.index].value();
        const TokenKernel along = expressions_.between(multiplied, normalised),
                          across = expressions_.between(normalised, multiplied),
                          unit = expressions_.covariances(normalised);
        PerToken share = layout_.diagonal_of(along);
        for (std::size_t i = 0; i < share.size(); ++i) share[i] /= unit[layout_.diagonal(i)];
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            seen[e] += share[i] * share[j] * unit[e] - share[i] * across[e] - share[j] * along[e];
        });
        return seen;
    }

    const Plan* plan_ = nullptr;
    const TokenLayout& layout_;
    double width_;
    const NormMoments& norm_;
    SublayerMoments* sublayer_ = nullptr;
    BlockExpressions expressions_;
    std::vector<BlockExpression> values_, results_, gated_;  // of streams and steps; of results; what gates multiply
    std::vector<PassedNorm> passed_;                         // the plan's norms
    TokenSources gradients_;  // at the results, at f's input, and beside the mean behind each elementwise norm
    std::vector<TokenCombination> paths_;  // from streams and steps to those
};

}  // namespace normplace
