// SPDX-License-Identifier: BSD-3-Clause
//
// Follows a placement's plan after one optimizer step, in moments: from the new tokens' stream at the block's input to
// that at its output. One of the readers of the formula (placement/plan.hpp), for one stream and without gates.
//
// As in moments.hpp every expression is, token by token, p x + b F. Before the step (old tokens i) and after it (new
// tokens j) the coefficients differ, because norms divide by other second moments. The gradient at x is p_i times the
// root's, and that at F is b_i times the root's, so that in units of the root's gradient
//
//     C = p_i p'_j C_x + b_i b'_j C_F,   a = p_i p'_j a_x + b_i b'_j a_F,
//     K' = p'_j p'_j' K'_x + b'_j b'_j' K'_F + p'_j b'_j' X_jj' + b'_j p'_j' X_j'j,   X = a_x^T (p G b) a_F.
//
// x and F are independent before the step; X is what they share after it, both pulled along the same gradients.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include <normplace/analysis/step_sublayer.hpp>
#include <normplace/placement/plan.hpp>

namespace normplace {

/// What a block's step needs of the network before it, apart from the sublayer's.
struct BlockBefore {
    PerToken stream, branch;  ///< second moments of x and of F
    FoldedKernel gradient;    ///< at the block's output
};

/// The steps of a norm's gain and bias.
struct NormStep {
    StepDecomposition gain, bias;
};

class BlockStep {
public:
    /// `before` and `sublayer` are kept by reference.
    BlockStep(Plan plan, double epsilon, const BlockBefore& before, SublayerStep& sublayer)
        : norms(plan.norms.size()),
          plan_(std::move(plan)),
          epsilon_(epsilon),
          before_(before),
          sublayer_(sublayer),
          old_roots_(plan_.norms.size()),
          root_(coefficients_before()) {}

    SteppedActivations step(const detail::StepContext& context, const SteppedActivations& stream) {
        context_ = &context;
        stream_ = &stream;
        branch_ = {};
        values_.clear();
        for (const Plan::Step& step : plan_.steps) {
            Expression input = sum(step.input);
            values_.push_back(step.kind == Node::Kind::sublayer ? through_sublayer(input)
                                                                : through_norm(step.index, std::move(input)));
        }
        const Expression root = sum(plan_.results[0]);
        SteppedActivations result = combine(root);
        const Crossing& crossing = context.crossing;
        if (root.own.size() > 0) {  // with o added, a^T G a grows by the symmetric part of o^T G (2 a + o)
            CrossedKernel twice = result.amplitude;
            for (std::size_t e = 0; e < twice.size(); ++e) {
                result.amplitude[e] += root.own[e];
                twice[e] += result.amplitude[e];
            }
            const TokenKernel added = crossing.between(root.own, before_.gradient, twice);
            const TokenKernel transposed = crossing.transposed(added);
            for (std::size_t e = 0; e < added.size(); ++e) {
                const double growth = 0.5 * (added[e] + transposed[e]);
                result.covariance[e] += growth;
                result.change[e] += growth;
            }
        }
        return result;
    }

    /// In the order of the plan's norms.
    std::vector<NormStep> norms;

private:
    using Pair = std::pair<PerToken, PerToken>;
    struct Expression {
        PerToken stream, branch;          // old tokens, before the step
        PerToken new_stream, new_branch;  // new tokens, after it
        CrossedKernel own;                // amplitude that the steps of norms' gains and biases add; empty: none
    };

    const Crossing& crossing() const { return context_->crossing; }

    SteppedActivations combine(const Expression& c) const {
        const bool has_branch = branch_.covariance.size() > 0;
        SteppedActivations r{TokenKernel(crossing().after().entries()), crossing().zero(), crossing().zero(),
                             TokenKernel(crossing().after().entries())};
        crossing().for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const double x = c.stream[i] * c.new_stream[j];
            r.crossed[e] = x * stream_->crossed[e];
            r.amplitude[e] = x * stream_->amplitude[e];
            if (!has_branch) return;
            const double f = c.branch[i] * c.new_branch[j];
            r.crossed[e] += f * branch_.crossed[e];
            r.amplitude[e] += f * branch_.amplitude[e];
        });
        crossing().after().for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const double x = c.new_stream[i] * c.new_stream[j];
            r.covariance[e] = x * stream_->covariance[e];
            r.change[e] = x * stream_->change[e];
            if (!has_branch) return;
            const double f = c.new_branch[i] * c.new_branch[j];
            const double shared = c.new_stream[i] * c.new_branch[j] * shared_[e] +
                                  c.new_branch[i] * c.new_stream[j] * shared_transposed_[e];
            r.covariance[e] += f * branch_.covariance[e] + shared;
            r.change[e] += f * branch_.change[e] + shared;
        });
        return r;
    }

    Expression stream() const {
        return {PerToken(crossing().rows(), 1.0),
                PerToken(crossing().rows(), 0.0),
                PerToken(crossing().columns(), 1.0),
                PerToken(crossing().columns(), 0.0),
                {}};
    }
    Expression through_sublayer(const Expression& c) {
        SteppedActivations input = combine(c);
        for (std::size_t k = 0; k < c.own.size(); ++k) input.amplitude[k] += c.own[k];
        branch_ = sublayer_.step(*context_, std::move(input));
        share();
        return {PerToken(crossing().rows(), 0.0),
                PerToken(crossing().rows(), 1.0),
                PerToken(crossing().columns(), 0.0),
                PerToken(crossing().columns(), 1.0),
                {}};
    }
    Expression through_norm(std::size_t index, Expression c) {
        const PerToken& old_root = old_roots_[index];
        for (std::size_t i = 0; i < old_root.size(); ++i) {
            c.stream[i] /= old_root[i];
            c.branch[i] /= old_root[i];
        }
        PerToken new_root(c.new_stream.size());
        const PerToken q = crossing().after().diagonal_of(combine(c).covariance);
        for (std::size_t j = 0; j < new_root.size(); ++j) {
            new_root[j] = std::sqrt(q[j] + epsilon_);
            c.new_stream[j] *= context_->kept() / new_root[j];
            c.new_branch[j] *= context_->kept() / new_root[j];
        }
        const NormStep& norm = norms[index];
        const double eta = context_->learning_rate;
        const CrossedKernel crossed = combine(c).crossed;
        CrossedKernel own(crossed.size());
        crossing().for_each_entry([&](std::size_t k, std::size_t i, std::size_t j) {
            own[k] = eta * (norm.gain.pull * crossed[k] + norm.bias.pull);
            if (c.own.size() > 0) own[k] += c.own[k] / (old_root[i] * new_root[j]);
        });
        c.own = std::move(own);
        return c;
    }
    Expression sum(const Plan::Terms& terms) const {
        Expression total;
        for (const Plan::Term& term : terms) {
            Expression c = term.source == 0 ? stream() : values_[term.source - 1];
            for (detail::ShortArray* part : {&c.stream, &c.branch, &c.new_stream, &c.new_branch})
                for (double& a : *part) a *= term.factor;
            for (double& a : c.own) a *= term.factor * term.factor;
            if (total.stream.size() == 0) total = std::move(c);
            else add(c, total);
        }
        return total;
    }
    static void add(const Expression& from, Expression& to) {
        const auto add = [](const detail::ShortArray& more, detail::ShortArray& sum) {
            for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
        };
        add(from.stream, to.stream), add(from.branch, to.branch);
        add(from.new_stream, to.new_stream), add(from.new_branch, to.new_branch);
        if (to.own.size() > 0) add(from.own, to.own);
        else to.own = from.own;
    }

    // X = a_x^T (p G b) a_F with the root's p and b, which are those before the step.
    void share() {
        CrossedKernel x = stream_->amplitude, f = branch_.amplitude;
        crossing().for_each_entry([&](std::size_t e, std::size_t i, std::size_t) {
            x[e] *= root_.first[i];
            f[e] *= root_.second[i];
        });
        shared_ = crossing().between(x, before_.gradient, f);
        shared_transposed_ = crossing().transposed(shared_);
    }

    // Those of the result before the step, for all learning rates alike. Sets the norms' roots.
    Pair coefficients_before() {
        const std::size_t classes = before_.stream.size();
        std::vector<Pair> values;
        const auto sum = [&](const Plan::Terms& terms) {
            Pair c{PerToken(classes), PerToken(classes)};
            for (const Plan::Term& term : terms)
                for (std::size_t i = 0; i < classes; ++i) {
                    c.first[i] += term.factor * (term.source == 0 ? 1.0 : values[term.source - 1].first[i]);
                    c.second[i] += term.factor * (term.source == 0 ? 0.0 : values[term.source - 1].second[i]);
                }
            return c;
        };
        for (const Plan::Step& step : plan_.steps) {
            Pair c = sum(step.input);
            if (step.kind == Node::Kind::sublayer) c = {PerToken(classes, 0.0), PerToken(classes, 1.0)};
            else divide_by_root(c, old_roots_[step.index]);
            values.push_back(std::move(c));
        }
        return sum(plan_.results[0]);
    }
    void divide_by_root(Pair& c, PerToken& root) const {
        root = PerToken(c.first.size());
        for (std::size_t i = 0; i < root.size(); ++i) {
            double q = c.first[i] * c.first[i] * before_.stream[i] + epsilon_;
            if (c.second[i] != 0.0) q += c.second[i] * c.second[i] * before_.branch[i];
            root[i] = std::sqrt(q);
            c.first[i] /= root[i];
            c.second[i] /= root[i];
        }
    }

    Plan plan_;
    double epsilon_;
    const BlockBefore& before_;
    SublayerStep& sublayer_;
    std::vector<PerToken> old_roots_;  // of each norm, before the step
    Pair root_;                        // the result's coefficients, before the step
    std::vector<Expression> values_;   // of each of the plan's steps
    const detail::StepContext* context_ = nullptr;
    const SteppedActivations* stream_ = nullptr;
    SteppedActivations branch_;
    TokenKernel shared_, shared_transposed_;
};

}  // namespace normplace
