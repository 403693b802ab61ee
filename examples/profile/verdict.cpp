// SPDX-License-Identifier: BSD-3-Clause
#include "verdict.hpp"

#include <cmath>
#include <normplace/analysis/paper.hpp>
#include <normplace/detail/table_text.hpp>

#include "../paragraph.hpp"
#include "../shared/name_width.hpp"
#include "slope.hpp"

namespace profile {

namespace np = normplace;
using np::detail::formatted;
using np::detail::left;
using np::detail::right;

namespace {

constexpr double slope_tolerance = 0.1;
constexpr double profile_tolerance = 0.1;  // relative

/// The paper speaks of two placements.
bool is_pre(const PlacementResult& result) { return result.predicted.placement == "pre-ln"; }
bool is_post(const PlacementResult& result) { return result.predicted.placement == "post-ln"; }
bool in_paper(const PlacementResult& result) { return is_pre(result) || is_post(result); }

/// Never "-0.00".
std::string two_digits(double value) {
    const std::string text = formatted("%.2f", value);
    return text == "-0.00" ? "0.00" : text;
}

std::string with_error(double value, double error) {
    if (!std::isfinite(value)) return "-";
    return two_digits(value) + (error > 0.0 ? formatted(" +- %.2f", error) : "");
}

struct DepthSlopes {
    Slope law, predicted, measured;

    explicit DepthSlopes(const std::vector<DepthPoint>& depths) {
        std::vector<LogPoint> laws, predictions, measurements;
        for (const DepthPoint& depth : depths) {
            const auto layers = static_cast<double>(depth.layers);
            laws.push_back({layers, 1.0 / std::sqrt(depth.second_moment)});
            predictions.push_back({layers, depth.predicted.norm});
            if (std::isfinite(depth.measured.norm))
                measurements.push_back({layers, depth.measured.norm, depth.measured.standard_error});
        }
        law = log_slope(laws);
        predicted = log_slope(predictions);
        if (measurements.size() == depths.size()) measured = log_slope(measurements);
    }
    bool is_measured() const { return std::isfinite(measured.value); }
    double best() const { return is_measured() ? measured.value : predicted.value; }
};

void depth_verdict(std::ostream& stream, const std::vector<PlacementResult>& results) {
    const auto& depths = results.front().depths;
    if (depths.empty()) {
        paragraph(stream,
                  "Last layer over depth: left out, since the prediction takes long for so many tokens of text; --plot "
                  "includes it.");
        return;
    }
    const std::size_t width = shared::name_width(results);
    stream << "Last layer over depth: ||dLoss/dW_2|| of layer L as a power of L, L = " << depths.front().layers
           << " to " << depths.back().layers << "\n"
           << left("", width) << right("Theorem 1, large L", 20) << right("its law here", 15) << right("predicted", 13)
           << right("measured", 17) << '\n';
    bool any_in_paper = false;
    for (const PlacementResult& result : results) {
        const DepthSlopes slopes(result.depths);
        any_in_paper = any_in_paper || in_paper(result);
        stream << left("  " + result.predicted.placement, width)
               << right(is_pre(result)    ? "-0.50"
                        : is_post(result) ? "0.00"
                                          : "-",
                        20)
               << right(in_paper(result) ? two_digits(slopes.law.value) : "-", 15)
               << right(with_error(slopes.predicted.value, 0.0), 13)
               << right(with_error(slopes.measured.value, slopes.measured.standard_error), 17) << '\n';
    }
    if (any_in_paper)
        paragraph(stream,
                  "Theorem 1 divides by the norm of the stream behind layer L. Its law here is that: 1/sqrt(second "
                  "moment), which grows as L for Pre-LN and is 1 for Post-LN.");
    for (const PlacementResult& result : results) {
        if (!in_paper(result)) continue;
        const DepthSlopes slopes(result.depths);
        const std::string who = is_pre(result) ? "Pre-LN" : "Post-LN";
        const std::string how = slopes.is_measured() ? "measured" : "predicted";
        const std::string power = "L^" + two_digits(slopes.best());
        const double error = slopes.is_measured() ? slopes.measured.standard_error : 0.0;
        const double noise = std::isfinite(error) ? 2.0 * error : 0.0;
        const bool holds = std::abs(slopes.best() - slopes.law.value) <= slope_tolerance + noise;
        const bool agree =
            !slopes.is_measured() || std::abs(slopes.measured.value - slopes.predicted.value) <= slope_tolerance;
        std::string sentence = "* Theorem 1 " + std::string(holds ? "holds" : "does not hold") + " for " + who + ": ";
        if (is_pre(result))
            sentence += "the last layer's gradient " +
                        std::string(slopes.best() < -slope_tolerance ? "shrinks" : "does not shrink") +
                        " with depth, " + how + " as " + power + ", where its law gives " + "L^" +
                        two_digits(slopes.law.value) + ".";
        else
            sentence += "the last layer's gradient " +
                        std::string(holds ? "is as large in a deep stack as in a shallow one" : "depends on depth") +
                        ", " + how + " as " + power + ".";
        if (is_pre(result) && holds && std::abs(slopes.best() + 0.5) > slope_tolerance)
            sentence += " At these depths the stream's second moment does not yet grow as L, so the power is not -1/2.";
        if (!agree) sentence += " Prediction and measurement disagree.";
        paragraph(stream, sentence);
    }
}

/// The gradient of W_2 in a layer (from 0) over that in the last.
double over_last(const np::GradientReport& report, std::size_t layer) {
    return report.layers[layer].w2.norm / report.layers.back().w2.norm;
}

double over_last_error(const np::GradientReport& report, std::size_t layer) {
    const np::GradientNorm &w = report.layers[layer].w2, &last = report.layers.back().w2;
    return over_last(report, layer) * std::hypot(w.standard_error / w.norm, last.standard_error / last.norm);
}

/// The extension's factor between a layer (from 0) and the last of `layers`.
double extension(const PlacementResult& result, std::size_t layer) {
    const std::size_t layers = result.predicted.layers.size();
    return is_post(result) ? np::paper::extension_post_ln(layer + 1, layers)
                           : np::paper::extension_pre_ln(layer + 1, layers);
}

void layer_verdict(std::ostream& stream, const std::vector<PlacementResult>& results) {
    const std::size_t layers = results.front().predicted.layers.size(), middle = layers / 2 - 1;
    const std::size_t width = shared::name_width(results);
    stream << "\nProfile over layers: ||dLoss/dW_2|| of a layer over that of layer " << layers << "\n"
           << left("", width) << right("layer", 9) << right("the extension", 26) << right("predicted", 13)
           << right("measured", 17) << '\n';
    for (const PlacementResult& result : results)
        for (const std::size_t l : middle > 0 ? std::vector<std::size_t>{0, middle} : std::vector<std::size_t>{0}) {
            // "does not depend on l for large l" says nothing about the first layer
            const bool says = is_post(result) || (is_pre(result) && l > 0);
            stream << left(l == 0 ? "  " + result.predicted.placement : "", width) << right(std::to_string(l + 1), 9)
                   << right(says ? formatted("%.2f", extension(result, l)) : "-", 26)
                   << right(with_error(over_last(result.predicted, l), 0.0), 13)
                   << right(result.measured
                                ? with_error(over_last(*result.measured, l), over_last_error(*result.measured, l))
                                : "-",
                            17)
                   << '\n';
        }
    for (const PlacementResult& result : results) {
        if (!is_post(result) && (!is_pre(result) || middle == 0)) continue;
        const std::string how = result.measured ? "measured" : "predicted";
        const np::GradientReport& report = result.measured ? *result.measured : result.predicted;
        const std::size_t l = is_post(result) ? 0 : middle;
        const double ratio = over_last(report, l), says = extension(result, l);
        if (!std::isfinite(ratio)) continue;
        const bool holds = std::abs(ratio / says - 1.0) <= profile_tolerance;
        std::string sentence = "* The extension " + std::string(holds ? "holds" : "does not reproduce") + " for ";
        if (is_post(result)) {
            sentence += "Post-LN: layer 1 should have (2/3)^((L-1)/2) = " + formatted("%.3g", says) +
                        " of the last layer's gradient, and has " + formatted("%.3g", ratio) + " (" + how + ").";
            if (!holds && std::abs(ratio - 1.0) < 0.25)
                sentence +=
                    " The profile is about flat: the branches' own Jacobians, which the extension's sketch leaves "
                    "out, give back what each norm takes; in the paper's model (1 + 1/2)(2/3) = 1.";
        } else {
            sentence += "Pre-LN: gradients should not depend on the layer once it is large, and layer " +
                        std::to_string(l + 1) + " has " + formatted("%.2f", ratio) + " times the last layer's (" + how +
                        ").";
            if (!holds && ratio > 1.0)
                sentence +=
                    " Each layer divides by the norm of its own stream, which keeps growing, so the gradient "
                    "falls as l^-1/2.";
        }
        paragraph(stream, sentence);
    }
}

void size_verdict(std::ostream& stream, const std::vector<PlacementResult>& results) {
    const PlacementResult *pre = nullptr, *post = nullptr;
    for (const PlacementResult& result : results) {
        if (is_pre(result)) pre = &result;
        if (is_post(result)) post = &result;
    }
    if (!pre || !post) return;
    const bool measured = pre->measured && post->measured;
    const auto last = [&](const PlacementResult& r) {
        return (measured ? *r.measured : r.predicted).layers.back().w2.norm;
    };
    const bool swept = !pre->depths.empty();
    const bool grows = DepthSlopes(post->depths).best() > DepthSlopes(pre->depths).best() + slope_tolerance;
    stream << '\n';
    paragraph(stream, "So at " + std::to_string(pre->predicted.layers.size()) + " layers Post-LN's last layer gets " +
                          formatted("%.2g", last(*post) / last(*pre)) + " times the gradient of Pre-LN's (" +
                          (measured ? "measured" : "predicted") + ")" +
                          (grows   ? ", and the factor grows with depth: the paper's reason why Post-LN needs warm-up."
                           : swept ? ", and the factor does not grow with depth."
                                   : "."));
}

}  // namespace

void write_verdict(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results) {
    stream << "What Xiong et al. 2020 (arXiv:2002.04745) say of the gradients at initialization, and what is so\n\n";
    depth_verdict(stream, results);
    if (options.model.layers < 2) return;  // one layer says nothing of the others
    layer_verdict(stream, results);
    size_verdict(stream, results);
}

}  // namespace profile
