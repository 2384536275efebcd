package io.episode;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Option;
import scala.Product;
import scala.Some;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Puts the plans of patterns in the place of the relations that stand for them in a tree of Spark's parser.
 *
 * <p>Texts that a command keeps (the text of a view) become the user's again. All fields of nodes are followed, not
 * only children: common tables and the queries of many commands are no children.
 */
final class Placeholders {
  private final Statement statement;
  private final String written;
  private final Map<String, Object> plans;

  Placeholders(Statement statement) {
    this.statement = statement;
    this.written = statement.written();
    this.plans = statement.plans();
  }

  Object replace(Object part) {
    if (part instanceof String) {
      return original((String) part);
    }
    if (part instanceof UnresolvedRelation) {
      Seq<String> name = ((UnresolvedRelation) part).multipartIdentifier();
      Object plan = name.size() == 1 ? plans.get(name.apply(0)) : null;
      return plan == null ? part : plan;
    }
    if (part instanceof TreeNode) {
      Object[] fields = replaceFields((Product) part);
      return fields == null ? part : ((TreeNode<?>) part).makeCopy(fields);
    }
    if (part instanceof Some) {
      Object inside = ((Some<?>) part).get(), replaced = replace(inside);
      return replaced == inside ? part : Option.apply(replaced);
    }
    if (part instanceof Seq) {
      return replaceItems((Seq<?>) part);
    }
    if (part instanceof Tuple2) {
      Object[] fields = replaceFields((Product) part);
      return fields == null ? part : new Tuple2<>(fields[0], fields[1]);
    }
    if (part instanceof Tuple3) {
      Object[] fields = replaceFields((Product) part);
      return fields == null ? part : new Tuple3<>(fields[0], fields[1], fields[2]);
    }
    return part;
  }

  /** The fields of a node or a tuple with plans in them; null: nothing is replaced. */
  private Object[] replaceFields(Product product) {
    Object[] fields = new Object[product.productArity()];
    boolean changed = false;
    for (int at = 0; at < fields.length; at++) {
      Object field = product.productElement(at);
      fields[at] = replace(field);
      changed |= fields[at] != field;
    }
    return changed ? fields : null;
  }

  private Object replaceItems(Seq<?> items) {
    List<Object> replaced = new ArrayList<>(items.size());
    boolean changed = false;
    for (Iterator<?> each = items.iterator(); each.hasNext(); ) {
      Object item = each.next(), one = replace(item);
      replaced.add(one);
      changed |= one != item;
    }
    return changed ? CollectionConverters.asScala(replaced).toSeq() : items;
  }

  /** The part of the user's text from which a part of the written text was made. */
  private String original(String part) {
    if (plans.keySet().stream().noneMatch(part::contains)) {
      return part;
    }
    int begin = written.indexOf(part);
    if (begin < 0) {
      return part;
    }
    String text = String.join("", statement.originalPieces());
    return text.substring(statement.originalPlace(begin, false), statement.originalPlace(begin + part.length(), true));
  }
}
