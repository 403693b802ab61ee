// SPDX-License-Identifier: BSD-3-Clause
//
// Follows a placement's plan in moments: forward, from the covariances of the streams to those of the block's results;
// backward, from those of the gradient at the results to those at the streams. One of the readers of the formula
// (placement/plan.hpp).
//
// Inside one block every expression is, token by token, a x + b F, with F the sublayer's output, independent of x (and
// a_1 x_1 + a_2 x_2 + ... where there are several streams): a stream is (1, 0), `f(...)` is (0, 1), a sum adds, a
// factor multiplies, and a norm divides by the root of the second moment a^2 K_ii + b^2 F_ii + epsilon. So covariances
// are a_i a_j K_ij + b_i b_j F_ij, and x + norm(x) is no special case. A gate is the factor that it starts with. DyT,
// which is no norm but tanh(alpha e), is lambda e, lambda = E tanh'(alpha e) alpha, and a part of its own that is
// uncorrelated with everything before it.
// Backward, the gradient at an expression is the results' times factors, plus, where f reads it, that of f's input
// times factors, which is independent of the other.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <normplace/analysis/norm_moments.hpp>
#include <normplace/analysis/stream_moments.hpp>
#include <normplace/analysis/sublayer_moments.hpp>
#include <normplace/placement/plan.hpp>

namespace normplace {

/// One residual block: the plan of its formula around one sublayer.
class BlockMoments {
public:
    /// plan, norm and sublayer are kept by reference.
    BlockMoments(const Plan& plan, const TokenLayout& layout, double width, const NormMoments& norm,
                 SublayerMoments& sublayer)
        : layout_(layout), width_(width), norm_(norm) {
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
        enter(streams, fluctuations);
        const std::size_t count = results_.size();
        StreamKernels output(count);
        StreamFluctuations after(count);
        for (std::size_t r = 0; r < count; ++r) {
            for (std::size_t q = 0; q < count; ++q)
                output(r, q) = q == r ? combine(results_[r]) : between(results_[r], results_[q]);
            after[r] = fluctuation_of(results_[r]);
        }
        fluctuations = std::move(after);
        return output;
    }
    /// What backward needs of forward, without the output.
    void prepare(const StreamKernels& streams, const StreamFluctuations& fluctuations) { enter(streams, fluctuations); }

    /// Covariances of the gradient at the streams, from those at the block's results. Needs forward's state.
    StreamKernels backward(const StreamKernels& gradient) {
        const std::size_t streams = plan_->streams;
        paths_.assign(streams + plan_->steps.size(), Path(gradient.streams(), layout_.classes()));
        std::vector<Path>& paths = paths_;
        gradient_ = &gradient;
        const PerToken one(layout_.classes(), 1.0);
        for (std::size_t r = 0; r < plan_->results.size(); ++r)
            for (const Plan::Term& term : plan_->results[r]) add(term.factor, one, paths[term.source].from_results[r]);
        for (std::size_t k = plan_->steps.size(); k-- > 0;) {
            const Plan::Step& step = plan_->steps[k];
            Path path = paths[streams + k];
            if (step.kind == Node::Kind::sublayer) {
                input_gradient_ = sublayer_->backward(kernel(path, path));
                path = Path(gradient.streams(), layout_.classes());
                path.from_input = one;
            } else if (step.kind == Node::Kind::gated) {
                gates[step.index] = width_ * layout_.inner(kernel(path, path), seen_by_gate(k));
                scale(path, plan_->gates[step.index].start);
            } else {
                back_through_norm(k, path);
            }
            for (const Plan::Term& term : step.input) add(term.factor, path, paths[term.source]);
        }
        StreamKernels result(streams);
        for (std::size_t s = 0; s < streams; ++s)
            for (std::size_t t = 0; t < streams; ++t) result(s, t) = kernel(paths[s], paths[t]);
        return result;
    }

    /// Covariances of the first result with the first stream; of a norm's value; and of that result with it.
    TokenKernel result_with_stream() const { return between(results_[0], of(0)); }
    TokenKernel norm_value(std::size_t index) const { return combine(outputs_[index]); }
    TokenKernel result_with_norm(std::size_t index) const { return between(results_[0], outputs_[index]); }

    /// E f(x)^2 per entry, averaged over tokens. Needs forward's state.
    double branch_square() const { return branch_mean_.same; }

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
    struct Coefficients {
        std::array<PerToken, Formula::most_streams + 1> parts;  // of the streams, then of F
        std::array<double, Formula::most_streams + 1> norm{};   // relative variances of the parts' squared norms
        bool normalised = false;                                // a norm, perhaps times a factor
        double widening = 0.0;                                  // what the norm adds to 1 - rho, relative
        double log_spread = 0.0;                                // and to the variance of its logarithm
        std::vector<PerToken> own;                              // of the elementwise norms' own parts
    };
    /// The factors between an expression and what gradients come from: the results, and f's input.
    struct Path {
        std::array<PerToken, Formula::most_streams> from_results;
        PerToken from_input;
        std::vector<PerToken> from_own;  // what an elementwise norm makes of the gradient beside its mean
        Path(std::size_t results, std::size_t classes) : from_input(classes) {
            for (std::size_t r = 0; r < results; ++r) from_results[r] = PerToken(classes);
        }
    };
    /// The streams' part of an expression: all streams share most of what they are made of, so their relative variances
    /// are averaged, weighted by what each contributes.
    struct StreamPart {
        double square = 0.0;  // second moment
        double norm = 0.0;    // relative variance of the squared norm
        Fluctuation fluctuation;
    };

    std::size_t branch() const { return plan_->streams; }

    void enter(const StreamKernels& streams, const StreamFluctuations& fluctuations) {
        streams_ = streams;
        fluctuations_ = fluctuations;
        means_.clear();
        for (std::size_t s = 0; s < plan_->streams; ++s)
            for (std::size_t t = 0; t < plan_->streams; ++t) means_.push_back(mean_within(layout_, streams_(s, t)));
        branch_ = {};
        input_ = {};
        branch_mean_ = {0.0, 0.0};
        values_.clear();
        values_.reserve(plan_->steps.size());
        gated_.resize(plan_->gates.size());
        roots_.resize(plan_->norms.size());
        own_.assign(plan_->norms.size(), {});
        own_gradients_.assign(plan_->norms.size(), {});
        outputs_.resize(plan_->norms.size());
        inverse_square_.resize(plan_->norms.size());
        for (const Plan::Step& step : plan_->steps) {
            Coefficients input = sum(step.input);
            if (step.kind == Node::Kind::sublayer) values_.push_back(through_sublayer(input));
            else if (step.kind == Node::Kind::gated) {
                gated_[step.index] = input;
                scale(input, plan_->gates[step.index].start);
                values_.push_back(std::move(input));
            } else values_.push_back(through_norm(step.index, std::move(input)));
        }
        results_.clear();
        for (const Plan::Terms& result : plan_->results) results_.push_back(sum(result));
    }

    Coefficients through_sublayer(const Coefficients& input) {
        input_ = stream_part(input);
        const double input_norm = norm_variance(input);
        Fluctuation entering = input_.fluctuation;
        entering.norm = input_norm;
        entering.log_spread += input.log_spread;
        sublayer_->before_norm = leads_to_norm();
        branch_ = sublayer_->forward(combine(input), entering);
        branch_mean_ = mean_within(layout_, branch_);
        Coefficients c = nothing();
        c.parts[branch()] = PerToken(layout_.classes(), 1.0);
        c.norm[branch()] = input_norm + sublayer_->norm_variance();
        return c;
    }
    Coefficients through_norm(std::size_t index, Coefficients c) {
        if (norm_.is_elementwise()) return through_elementwise(index, c);
        if (norm_.divides_by_size()) widen(c);
        inverse_square_[index] = has_stream(c) ? 1.0 : 1.0 + norm_variance(c);
        if (norm_.divides_by_size()) {
            c.norm.fill(0.0);
            c.normalised = true;
        }
        PerToken& root = roots_[index];
        root = PerToken(layout_.classes());
        for (std::size_t i = 0; i < root.size(); ++i) {
            root[i] = norm_.root(square_at(c, i));
            for (std::size_t p = 0; p <= branch(); ++p) c.parts[p][i] /= root[i];
        }
        outputs_[index] = c;
        scale(c, plan_->norms[index].start);
        return c;
    }
    /// tanh(alpha e): what follows e, and the rest, which does not covary with e.
    Coefficients through_elementwise(std::size_t index, Coefficients c) {
        const TokenKernel input = combine(c);
        const PerToken q = layout_.diagonal_of(input);
        PerToken& slope = roots_[index];
        slope = PerToken(q.size());
        for (std::size_t i = 0; i < q.size(); ++i) slope[i] = std::sqrt(norm_.elementwise(q[i], q[i], 0.0).derivative);
        own_[index] = TokenKernel(layout_.entries());
        own_gradients_[index] = TokenKernel(layout_.entries());
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const KernelPair pair = norm_.elementwise(q[i], q[j], input[e]);
            own_[index][e] = pair.value - slope[i] * slope[j] * input[e];
            own_gradients_[index][e] = pair.derivative - slope[i] * slope[j];
        });
        const auto times_slope = [&](PerToken& part) {
            for (std::size_t i = 0; i < part.size(); ++i) part[i] *= slope[i];
        };
        for (PerToken& part : c.parts) times_slope(part);
        for (PerToken& part : c.own) times_slope(part);
        c.own.resize(plan_->norms.size(), PerToken(layout_.classes()));
        c.own[index] = PerToken(layout_.classes(), 1.0);
        c.widening = 0.0;
        outputs_[index] = c;
        scale(c, plan_->norms[index].start);
        return c;
    }
    static void scale(Coefficients& c, double factor) {
        if (factor == 1.0) return;
        for (PerToken& part : c.parts)
            for (double& a : part) a *= factor;
        for (PerToken& part : c.own)
            for (double& a : part) a *= factor;
    }

    /// Whether f's value is all that a norm reads, and nobody else reads it.
    bool leads_to_norm() const {
        std::size_t readers = 0;
        bool norm = false;
        for (std::size_t k = 0; k < plan_->steps.size(); ++k)
            for (const Plan::Term& term : plan_->steps[k].input)
                if (term.source >= plan_->streams &&
                    plan_->steps[term.source - plan_->streams].kind == Node::Kind::sublayer) {
                    ++readers;
                    norm = plan_->steps[k].kind == Node::Kind::norm && plan_->steps[k].input.size() == 1;
                }
        for (const Plan::Terms& result : plan_->results)
            for (const Plan::Term& term : result)
                readers += term.source >= plan_->streams &&
                           plan_->steps[term.source - plan_->streams].kind == Node::Kind::sublayer;
        return readers == 1 && norm && norm_.divides_by_size();
    }

    Coefficients nothing() const {
        Coefficients c;
        for (std::size_t p = 0; p <= branch(); ++p) c.parts[p] = PerToken(layout_.classes());
        return c;
    }
    Coefficients of(std::size_t source) const {
        if (source >= plan_->streams) return values_[source - plan_->streams];
        Coefficients c = nothing();
        c.parts[source] = PerToken(layout_.classes(), 1.0);
        c.norm[source] = fluctuations_[source].norm;
        return c;
    }
    Coefficients sum(const Plan::Terms& terms) const {
        Coefficients c = of(terms[0].source);
        scale(c, terms[0].factor);
        for (std::size_t k = 1; k < terms.size(); ++k) {
            const Coefficients other = of(terms[k].source);
            for (std::size_t p = 0; p <= branch(); ++p) {
                add(terms[k].factor, other.parts[p], c.parts[p]);
                c.norm[p] = std::fmax(c.norm[p], other.norm[p]);
            }
            c.own.resize(std::max(c.own.size(), other.own.size()), PerToken(layout_.classes()));
            for (std::size_t n = 0; n < other.own.size(); ++n) add(terms[k].factor, other.own[n], c.own[n]);
            c.normalised = false;
            c.widening = c.log_spread = 0.0;
        }
        return c;
    }

    static void add(double factor, const PerToken& what, PerToken& to) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * what[i];
    }
    static void add(double factor, const Path& what, Path& to) {
        for (std::size_t r = 0; r < to.from_results.size(); ++r) add(factor, what.from_results[r], to.from_results[r]);
        add(factor, what.from_input, to.from_input);
        to.from_own.resize(std::max(to.from_own.size(), what.from_own.size()), PerToken(what.from_input.size()));
        for (std::size_t n = 0; n < what.from_own.size(); ++n) add(factor, what.from_own[n], to.from_own[n]);
    }
    static void scale(Path& path, double factor) {
        for (PerToken& from : path.from_results)
            for (double& p : from) p *= factor;
        for (double& p : path.from_input) p *= factor;
        for (PerToken& from : path.from_own)
            for (double& p : from) p *= factor;
    }
    static double mean_product(const PerToken& a, const PerToken& b) {
        double sum = 0.0;
        for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
        return sum / static_cast<double>(a.size());
    }
    bool has_stream(const Coefficients& c) const {
        for (std::size_t s = 0; s < plan_->streams; ++s)
            if (mean_product(c.parts[s], c.parts[s]) != 0.0) return true;
        return false;
    }

    StreamPart stream_part(const Coefficients& c) const {
        StreamPart part;
        for (std::size_t s = 0; s < plan_->streams; ++s) {
            double share = 0.0;
            for (std::size_t t = 0; t < plan_->streams; ++t) {
                const double product = mean_product(c.parts[s], c.parts[t]);
                const WithinMean& mean = means_[s * plan_->streams + t];
                share += product * mean.same;
                part.fluctuation.spread += product * (mean.same - mean.different);
            }
            part.square += share;
            if (plan_->streams == 1) share = 1.0;
            part.norm += share * c.norm[s];
            part.fluctuation.relative += share * fluctuations_[s].relative;
            part.fluctuation.log_spread += share * fluctuations_[s].log_spread;
        }
        if (plan_->streams > 1 && part.square > 0.0)
            for (double* average : {&part.norm, &part.fluctuation.relative, &part.fluctuation.log_spread})
                *average /= part.square;
        return part;
    }

    // Of a x + b F: the two parts' own, and the fluctuating product x.F.
    double norm_variance(const Coefficients& c) const { return norm_variance(c, stream_part(c)); }
    double norm_variance(const Coefficients& c, const StreamPart& stream) const {
        if (c.normalised) return 0.0;
        const PerToken& b = c.parts[branch()];
        const double x = stream.square, f = mean_product(b, b) * branch_mean_.same, total = x + f;
        if (!(total > 0.0)) return 0.0;
        return (x * x * stream.norm + f * f * c.norm[branch()] + 4.0 * x * f / width_) / (total * total);
    }

    Fluctuation fluctuation_of(const Coefficients& c) const {
        StreamPart stream = stream_part(c);
        const PerToken& b = c.parts[branch()];
        const double branch_square = mean_product(b, b);
        Fluctuation result;
        result.relative =
            combined_relative(stream.fluctuation, branch_square * (branch_mean_.same - branch_mean_.different),
                              branch_square * sublayer_->transfer() * input_.fluctuation.spread,
                              sublayer_->fresh(input_.fluctuation), width_);
        result.norm = norm_variance(c, stream);
        result.log_spread = stream.fluctuation.log_spread + c.log_spread;
        return result;
    }

    // What dividing by a fluctuating norm does to 1 - rho. The mean grows by the norm's relative variance, less the
    // part of the differences that points along the token and is lost, 1/D; a stream that was normalised before has
    // lost it already. Tokens that are not aligned fluctuate apart, hence the powers of rho (see combine).
    void widen(Coefficients& c) const {
        const StreamPart stream = stream_part(c);
        const PerToken& b = c.parts[branch()];
        const double variance = norm_variance(c, stream), branch_square = mean_product(b, b);
        const double x = stream.square, f = branch_square * branch_mean_.same;
        const double x_spread = stream.fluctuation.spread,
                     f_spread = branch_square * (branch_mean_.same - branch_mean_.different);
        if (!(x + f > 0.0) || !(x_spread + f_spread > 0.0)) return;
        const double kept = stream.norm > 0.0 ? 0.0 : x / (x + f) * x_spread / (x_spread + f_spread);
        const double rho = 1.0 - (x_spread + f_spread) / (x + f);
        c.widening = variance - (1.0 - kept) / width_;
        c.log_spread = variance * rho * rho;
    }

    /// Second moment for one class of tokens.
    double square_at(const Coefficients& c, std::size_t i) const {
        const std::size_t entry = layout_.diagonal(i);
        double q = 0.0;
        for (std::size_t s = 0; s < plan_->streams; ++s)
            for (std::size_t t = 0; t < plan_->streams; ++t)
                if (c.parts[s][i] != 0.0 && c.parts[t][i] != 0.0)
                    q += c.parts[s][i] * c.parts[t][i] * streams_(s, t)[entry];
        const double b = c.parts[branch()][i];
        if (b != 0.0) q += b * b * branch_[entry];
        for (std::size_t n = 0; n < c.own.size(); ++n)
            if (c.own[n][i] != 0.0) q += c.own[n][i] * c.own[n][i] * own_[n][entry];
        return q;
    }
    /// Covariances of two expressions, without what norms do to 1 - rho.
    TokenKernel between(const Coefficients& a, const Coefficients& b) const {
        TokenKernel result(layout_.entries());
        const bool has_branch = branch_.size() > 0;
        for (std::size_t s = 0; s < plan_->streams; ++s)
            for (std::size_t t = 0; t < plan_->streams; ++t) {
                const TokenKernel& stream = streams_(s, t);
                const PerToken &left = a.parts[s], &right = b.parts[t];
                layout_.for_each_entry(
                    [&](std::size_t e, std::size_t i, std::size_t j) { result[e] += left[i] * right[j] * stream[e]; });
            }
        if (has_branch) {
            const PerToken &left = a.parts[branch()], &right = b.parts[branch()];
            layout_.for_each_entry(
                [&](std::size_t e, std::size_t i, std::size_t j) { result[e] += left[i] * right[j] * branch_[e]; });
        }
        for (std::size_t n = 0; n < std::min(a.own.size(), b.own.size()); ++n)
            if (own_[n].size() > 0)
                layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
                    result[e] += a.own[n][i] * b.own[n][j] * own_[n][e];
                });
        return result;
    }
    TokenKernel combine(const Coefficients& c) const {
        TokenKernel result = between(c, c);
        if (c.widening == 0.0) return result;
        // 1 - rho times 1 + widening rho (1 + rho)/2: for Gaussian vectors, where widening = 1/D, Fisher's mean of a
        // sample correlation.
        PerToken root = layout_.diagonal_of(result);
        for (double& q : root) q = std::sqrt(q);
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const double scale = root[i] * root[j], rho = scale > 0.0 ? std::fmin(result[e] / scale, 1.0) : 0.0;
            result[e] -= 0.5 * c.widening * scale * rho * (1.0 - rho * rho);
        });
        return result;
    }

    /// Covariances of the gradients at two expressions.
    TokenKernel kernel(const Path& a, const Path& b) const {
        TokenKernel result(layout_.entries());
        const auto add_product = [&](const PerToken& left, const PerToken& right, const TokenKernel& source) {
            layout_.for_each_entry(
                [&](std::size_t e, std::size_t i, std::size_t j) { result[e] += left[i] * right[j] * source[e]; });
        };
        for (std::size_t r = 0; r < gradient_->streams(); ++r)
            for (std::size_t q = 0; q < gradient_->streams(); ++q)
                add_product(a.from_results[r], b.from_results[q], (*gradient_)(r, q));
        if (input_gradient_.size() > 0) add_product(a.from_input, b.from_input, input_gradient_);
        for (std::size_t n = 0; n < std::min(a.from_own.size(), b.from_own.size()); ++n)
            if (own_gradients_[n].size() > 0) add_product(a.from_own[n], b.from_own[n], own_gradients_[n]);
        return result;
    }
    /// Covariances of what a gate multiplies, as far as its gradient sees it. Those of one number that leads to a norm
    /// are without what points along the norm's argument, since the Jacobian takes that away; the gradient of a number
    /// on a stream that goes on is not independent of the stream, and has no theory.
    TokenKernel seen_by_gate(std::size_t k) const {
        const Plan::Step& step = plan_->steps[k];
        const Coefficients& value = gated_[step.index];
        TokenKernel seen = combine(value);
        if (plan_->gates[step.index].per_channel) return seen;
        const std::size_t source = plan_->streams + k;
        const auto reads = [&](const Plan::Terms& input) {
            return std::any_of(input.begin(), input.end(),
                               [&](const Plan::Term& term) { return term.source == source; });
        };
        const bool goes_on = std::any_of(plan_->results.begin(), plan_->results.end(), reads);
        if (goes_on && has_stream(value)) return TokenKernel(seen.size(), std::numeric_limits<double>::quiet_NaN());
        const auto reader = std::find_if(plan_->steps.begin(), plan_->steps.end(),
                                         [&](const Plan::Step& later) { return reads(later.input); });
        if (goes_on || reader == plan_->steps.end() || reader->kind != Node::Kind::norm || !norm_.divides_by_size())
            return seen;
        const Coefficients& normalised = outputs_[reader->index];
        const TokenKernel along = between(value, normalised), across = between(normalised, value),
                          unit = combine(normalised);
        PerToken share = layout_.diagonal_of(along);
        for (std::size_t i = 0; i < share.size(); ++i) share[i] /= unit[layout_.diagonal(i)];
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            seen[e] += share[i] * share[j] * unit[e] - share[i] * across[e] - share[j] * along[e];
        });
        return seen;
    }
    void back_through_norm(std::size_t step, Path& path) {
        const std::size_t index = plan_->steps[step].index;
        const TokenKernel gradient = kernel(path, path);
        norms[index] =
            norm_.own({width_ * layout_.inner(gradient, combine(outputs_[index])), width_ * layout_.total(gradient)});
        const double start = plan_->norms[index].start;
        const PerToken& root = roots_[index];
        if (norm_.is_elementwise()) {
            TokenKernel& own = own_gradients_[index];  // so far of the derivatives alone
            for (std::size_t e = 0; e < own.size(); ++e) own[e] *= start * start * gradient[e];
            scale_by_token(path, [&](std::size_t i) { return start * root[i]; });
            path.from_own.resize(plan_->norms.size(), PerToken(layout_.classes()));
            path.from_own[index] = PerToken(layout_.classes(), 1.0);
            return;
        }
        // E 1/q exceeds 1/E q by q's relative variance; against that the Jacobian's projection along the token takes
        // 1/D away. Of a Gaussian vector, whose variance is 2/D, the square so gains 1/D in all, under either norm.
        // That is derived. That the gain is nothing where the stream passes the norm, and all of the variance for a
        // branch alone, are estimates. Measured: Peri-LN's matrices were 1.3 % too low without this factor and are
        // within 0.3 % with it, while one layer's W_q went from 1.001 to 1.011 of the measured.
        const double excess = norm_.divides_by_size() ? std::sqrt(inverse_square_[index]) : 1.0;
        scale_by_token(path, [&](std::size_t i) { return start * excess / root[i]; });
    }
    template <class Factor>
    static void scale_by_token(Path& path, const Factor& factor) {
        const auto scale_all = [&](PerToken& from) {
            for (std::size_t i = 0; i < from.size(); ++i) from[i] *= factor(i);
        };
        for (PerToken& from : path.from_results) scale_all(from);
        scale_all(path.from_input);
        for (PerToken& from : path.from_own) scale_all(from);
    }

    const Plan* plan_ = nullptr;
    const TokenLayout& layout_;
    double width_;
    const NormMoments& norm_;
    SublayerMoments* sublayer_ = nullptr;
    StreamKernels streams_;
    StreamFluctuations fluctuations_;
    std::vector<WithinMean> means_;  // of every pair of streams
    TokenKernel branch_, input_gradient_;
    WithinMean branch_mean_{};
    StreamPart input_;  // of f
    std::vector<Coefficients> values_, results_, gated_, outputs_;
    std::vector<PerToken> roots_;
    std::vector<double> inverse_square_;
    std::vector<Path> paths_;                       // of streams and steps
    std::vector<TokenKernel> own_, own_gradients_;  // of each norm, where it is elementwise
    const StreamKernels* gradient_ = nullptr;
};

}  // namespace normplace
